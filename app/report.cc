// SPDX-License-Identifier: Apache-2.0
#include "app/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/fit_job.h"
#include "app/parallel.h"
#include "app/table_match.h"
#include "formats/content_hash.h"

namespace so4cal {
namespace {

constexpr auto kHadamardIndex = static_cast<std::size_t>(Baseline::kHadamard);
constexpr auto kHadamardOffsetIndex = static_cast<std::size_t>(Baseline::kHadamardOffset);
constexpr auto kCalibratedIndex = static_cast<std::size_t>(Baseline::kCalibrated);

// Sums of what Pool() has seen.
class Pool {
 public:
  void Add(const BaselineErrors& errors) {
    for (std::size_t b = 0; b < kNumBaselines; ++b) {
      BaselineError& sum = pooled_.errors[b];
      const auto rows = static_cast<double>(errors[b].distortion.num_rows);
      if (errors[b].blocks_improved)
        sum.blocks_improved = sum.blocks_improved.value_or(0) + rows * *errors[b].blocks_improved;
      sum.distortion.Merge(errors[b].distortion);
    }
    AddRatio(errors, kHadamardIndex, to_hadamard_);
    AddRatio(errors, kHadamardOffsetIndex, to_hadamard_offset_);
  }

  PooledReport Result() const {
    PooledReport result = pooled_;
    for (BaselineError& error : result.errors)
      if (error.blocks_improved) *error.blocks_improved /= static_cast<double>(error.distortion.num_rows);
    result.ratio_to_hadamard = GeometricMean(to_hadamard_);
    result.ratio_to_hadamard_offset = GeometricMean(to_hadamard_offset_);
    return result;
  }

 private:
  // Heads without any error (all zero) have no ratio.
  static void AddRatio(const BaselineErrors& errors, std::size_t baseline, std::vector<double>& ratios) {
    const double ratio =
        errors[kCalibratedIndex].distortion.error_energy / errors[baseline].distortion.error_energy;
    if (std::isfinite(ratio) && ratio > 0) ratios.push_back(ratio);
  }

  PooledReport pooled_;
  std::vector<double> to_hadamard_, to_hadamard_offset_;
};

std::vector<float> FitMean(const HeadView& head, const HeadTable& table, std::span<const TokenRange> fit) {
  if (fit.empty()) return table.transform.offset;  // a fit's offset is the mean of its fit tokens
  const std::vector<float> rows = GatherRows(head, fit);
  return ChannelMean({rows.data(), NumTokens(fit), static_cast<std::size_t>(head.channels), head.channels});
}

void MeasureSide(const LayerTable& layer, Side which, const Activations& activations,
                 const ReportTokens& tokens, std::vector<HeadReport>& heads) {
  const SideTable& side = layer.side(which);
  std::vector<HeadReport> measured(side.heads.size());
  ParallelFor(measured.size(), [&](std::size_t h) {
    const HeadView head = activations.head(static_cast<int>(h));
    const std::vector<float> mean = FitMean(head, side.heads[h], tokens.fit);
    const std::vector<float> rows = GatherRows(head, tokens.test);
    const HeadView test{rows.data(), NumTokens(tokens.test), static_cast<std::size_t>(head.channels),
                        head.channels};
    const std::vector<BaselineError> errors = MeasureBaselines(side, static_cast<int>(h), test, mean);
    SO4CAL_CHECK(errors.size() == kNumBaselines);
    HeadReport& report = measured[h];
    report = {
        layer.layer, which, static_cast<int>(h), SerializeHeadTable(side.codec, side.heads[h]).size(), {}};
    std::copy(errors.begin(), errors.end(), report.errors.begin());
  });
  std::move(measured.begin(), measured.end(), std::back_inserter(heads));
}

// One per file, over all layers of the table.
std::vector<std::string> DumpHashes(std::span<const LayerHashes> layers, std::size_t num_files) {
  std::vector<std::string> hashes;
  for (std::size_t f = 0; f < num_files; ++f) {
    std::string text;
    for (const LayerHashes& layer : layers)
      for (const auto& [dataset, hash] : layer.per_file[f])
        text += std::to_string(layer.layer) + ' ' + dataset + ' ' + hash + '\n';
    hashes.push_back(ContentHash({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}));
  }
  return hashes;
}

void PoolHeads(Report& report) {
  Pool both, sides[2];
  std::map<int, std::array<Pool, 2>> layers;
  for (const HeadReport& head : report.heads) {
    const auto side = static_cast<std::size_t>(head.side);
    for (Pool* pool : {&both, &sides[side], &layers[head.layer][side]}) pool->Add(head.errors);
  }
  for (const auto& [layer, pools] : layers)
    report.layers.push_back({layer, {pools[0].Result(), pools[1].Result()}});
  report.sides = {sides[0].Result(), sides[1].Result()};
  report.both = both.Result();
}

}  // namespace

Report MeasureReport(const std::filesystem::path& table_path, const RotationTable& table,
                     const KvDump& dump) {
  CheckTableFitsDump(table, dump);
  Report report;
  report.table_path = table_path;
  report.table = &table;
  report.dump = &dump;
  const std::vector<LayerHashes> hashes = HashTableLayers(table, dump);
  report.dump_hashes = DumpHashes(hashes, dump.files().size());
  report.known_dump = KnowsDump(table, hashes);
  const ReportTokens tokens = TokensToReport(table, dump, report.known_dump);
  report.fit_tokens = NumTokens(tokens.fit);
  report.validation_tokens = tokens.num_validation;
  report.test_tokens = NumTokens(tokens.test);
  for (const LayerTable& layer : table.layers)
    for (const Side side : kSides)
      MeasureSide(layer, side, dump.Read(layer.layer, side), tokens, report.heads);
  report.has_mean = std::any_of(report.heads.begin(), report.heads.end(), [](const HeadReport& head) {
    return head.errors[kCalibratedIndex].distortion.centred_energy > 0;
  });
  PoolHeads(report);
  return report;
}

}  // namespace so4cal
