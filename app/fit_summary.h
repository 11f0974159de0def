// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/kv_dump.h"
#include "lib/rotation_table.h"

namespace so4cal {

// What a fit did not do as asked, counted over all heads: nothing succeeds silently.
struct FitTroubles {
  std::uint64_t fell_back_to_identity = 0;
  std::uint64_t fell_back_to_hadamard = 0;
  std::uint64_t not_converged = 0;
  std::uint64_t constant_heads = 0;
  std::uint64_t tokens_lost = 0;  // dropped though no option asked for it
  // What --strict refuses. The iteration limit is no trouble: the losses have kinks, and most solves end
  // there.
  bool any() const {
    return fell_back_to_identity + fell_back_to_hadamard + constant_heads + tokens_lost != 0;
  }
};
FitTroubles CountTroubles(const RotationTable& table);

// "k layer 3 head 1: fitted, NMSE on test tokens .0213 (Hadamard .0250)", for -v.
std::vector<std::string> HeadLines(const LayerTable& layer);

// The last lines of `fit`.
std::string FitSummary(const RotationTable& table, const KvDump& dump, double seconds);

}  // namespace so4cal
