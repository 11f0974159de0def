// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calib/attention_metrics.h"
#include "calib/bootstrap.h"
#include "calib/metrics.h"
#include "formats/kv_dump.h"
#include "lib/rotation_table.h"

namespace so4cal {

// In the order of Baselines(). calib/MATH.md section 6.
inline constexpr std::size_t kNumBaselines = 6;
using BaselineErrors = std::array<BaselineError, kNumBaselines>;

// What attention loses under every baseline, keys and values both stored with it. num_rows is 0 where
// attention could not be computed; logit_energy is 0 where logits could not.
struct AttentionReport {
  std::array<AttentionErrors, kNumBaselines> baselines;
  bool logits_from_moment =
      false;  // the logit error is the quadratic form under q_moment, not a sum over rows
};

// What the rotation did, in the metric that the head was fitted for: interval of the ratio of `calibrated`
// to `hadamard_offset`.
struct Verdict {
  RatioInterval interval;
  std::string_view name() const;  // helped, no difference, harmed
};

// Root mean square of every channel over the test tokens.
struct ChannelRms {
  std::vector<float> raw, rotated;  // of x, and of z = U (x - offset)
};

struct HeadReport {
  int layer = 0;
  Side side = Side::kKey;
  int head = 0;
  std::size_t table_bytes = 0;  // of the head table that an engine needs beside the rows
  BaselineErrors errors;
  AttentionReport attention;  // of the KV pair: the report takes from it what the side causes
  double headroom_db = 0;     // NMSE above that of independent normal values with the same codec
  std::optional<Verdict> verdict;
  ChannelRms channels;
};

// Error energies summed over heads. Geometric means over heads of NMSE(calibrated) / NMSE(baseline).
struct PooledReport {
  BaselineErrors errors;
  AttentionReport attention;
  double ratio_to_hadamard = 0;  // NaN where a layer is pooled, or no head has an error to compare
  double ratio_to_hadamard_offset = 0;
};

// What is stored in the errors of a pool or head: indices of LayerReport::pools and Report::pools.
enum class StoredSides { kKeys = 0, kValues = 1, kBoth = 2 };
inline constexpr StoredSides kStoredSides[] = {StoredSides::kKeys, StoredSides::kValues, StoredSides::kBoth};
constexpr const char* StoredName(StoredSides stored) {
  return stored == StoredSides::kKeys ? "k" : stored == StoredSides::kValues ? "v" : "kv";
}
constexpr StoredSides StoredOf(Side side) {
  return side == Side::kKey ? StoredSides::kKeys : StoredSides::kValues;
}

struct LayerReport {
  int layer = 0;
  std::array<PooledReport, 3> pools;
};

struct Report {
  std::filesystem::path table_path;
  const RotationTable* table = nullptr;
  const KvDump* dump = nullptr;
  std::vector<std::string> dump_hashes;  // one per file, over the datasets read
  bool known_dump = false;               // the table was fitted on it: only its test tokens are used
  std::uint64_t fit_tokens = 0, validation_tokens = 0, test_tokens = 0;
  std::vector<HeadReport> heads;  // by layer, side, head
  std::vector<LayerReport> layers;
  std::array<PooledReport, 3> pools;  // the whole model
  std::vector<std::string> notes;     // what could not be measured, and why
};

// Throws Error where table and dump have different layers, heads or head_dim, or the table no test tokens.
// `table` and `dump` must outlive the report. Memory: one layer of the dump, and what one KV head stores
// under all baselines, per core.
Report MeasureReport(const std::filesystem::path& table_path, const RotationTable& table, const KvDump& dump);

// Metric of the verdict: a key of the report's errors.
std::string_view DecisionMetric(Objective objective);

// One figure of the errors; NaN where it was not measured or the stored side does not change it.
struct ErrorFigure {
  std::string_view key;
  double (*value)(const BaselineError& error, const AttentionReport& attention, std::size_t baseline,
                  StoredSides stored);
};
std::span<const ErrorFigure> ErrorFigures();  // in the order of the report's keys
double FigureOf(std::string_view key, const BaselineErrors& errors, const AttentionReport& attention,
                Baseline baseline, StoredSides stored);

std::string ReportText(const Report& report);
std::string AttentionText(const Report& report);  // its second part: attention, verdicts, what is missing
std::string ReportJson(const Report& report);
std::string ReportCsv(const Report& report);
std::string ReportHtml(const Report& report);

}  // namespace so4cal
