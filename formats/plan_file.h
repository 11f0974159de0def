// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/activations.h"

namespace so4cal {

// Bits per layer and side, as `plan` writes them and `fit --plan` reads them. FORMATS.md, "The bit plan".
struct PlanFile {
  static constexpr int kVersion = 1;
  struct Row {
    int layer = 0;  // global layer id
    Side side = Side::kKey;
    int bits = 0, block = 0;
    double bits_per_value = 0;
    double error = 0;        // in the unit that `error` names
    double logit_error = 0;  // of keys, else NaN
  };
  double budget = 0;          // stored bits per value, at most
  double bits_per_value = 0;  // of all rows, by their sizes
  std::string error;          // what the errors are: "output_wo", "output_head" or "reconstruction"
  std::vector<Row> rows;      // ascending layers, keys before values
};

std::string PlanJson(const PlanFile& plan);

// Only layer, side, bits and block of the rows are read: a plan may be written by hand. Throws Error.
PlanFile ReadPlanFile(const std::filesystem::path& path);

}  // namespace so4cal
