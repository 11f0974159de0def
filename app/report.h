// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calib/metrics.h"
#include "formats/kv_dump.h"
#include "lib/rotation_table.h"

namespace so4cal {

// In the order of Baselines(). calib/MATH.md section 6.
inline constexpr std::size_t kNumBaselines = 6;
using BaselineErrors = std::array<BaselineError, kNumBaselines>;

struct HeadReport {
  int layer = 0;
  Side side = Side::kKey;
  int head = 0;
  std::size_t table_bytes = 0;  // of the head table that an engine needs beside the rows
  BaselineErrors errors;
};

// Error energies summed over heads. Geometric means over heads of NMSE(calibrated) / NMSE(baseline).
struct PooledReport {
  BaselineErrors errors;
  double ratio_to_hadamard = 0;  // NaN where a layer is pooled, or no head has an error to compare
  double ratio_to_hadamard_offset = 0;
};

struct LayerReport {
  int layer = 0;
  std::array<PooledReport, 2> sides;
};

struct Report {
  std::filesystem::path table_path;
  const RotationTable* table = nullptr;
  const KvDump* dump = nullptr;
  std::vector<std::string> dump_hashes;  // one per file, over the datasets read
  bool known_dump = false;               // the table was fitted on it: only its test tokens are used
  std::uint64_t fit_tokens = 0, validation_tokens = 0, test_tokens = 0;
  bool has_mean = false;  // the fit tokens' mean is known: centred errors exist
  std::vector<HeadReport> heads;
  std::vector<LayerReport> layers;
  std::array<PooledReport, 2> sides;  // the whole model
  PooledReport both;                  // keys and values
};

// Throws Error where table and dump have different layers, heads or head_dim, or the table no test tokens.
// `table` and `dump` must outlive the report.
Report MeasureReport(const std::filesystem::path& table_path, const RotationTable& table, const KvDump& dump);

std::string ReportText(const Report& report);
std::string ReportJson(const Report& report);
std::string ReportCsv(const Report& report);

}  // namespace so4cal
