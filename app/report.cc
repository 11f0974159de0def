// SPDX-License-Identifier: Apache-2.0
#include "app/report.h"

#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "app/layer_list.h"
#include "app/report_layer.h"
#include "app/table_match.h"
#include "calib/split.h"
#include "formats/content_hash.h"

namespace so4cal {
namespace {

constexpr auto kHadamardIndex = static_cast<std::size_t>(Baseline::kHadamard);
constexpr auto kHadamardOffsetIndex = static_cast<std::size_t>(Baseline::kHadamardOffset);
constexpr auto kCalibratedIndex = static_cast<std::size_t>(Baseline::kCalibrated);

// Sums of what Pool() has seen.
class Pool {
 public:
  // with_attention: false for the second head of a KV pair, whose attention the first one has added.
  void Add(const HeadReport& head, bool with_attention) {
    for (std::size_t b = 0; b < kNumBaselines; ++b) {
      const BaselineError& error = head.errors[b];
      BaselineError& sum = pooled_.errors[b];
      const auto rows = static_cast<double>(error.distortion.num_rows);
      if (error.blocks_improved)
        sum.blocks_improved = sum.blocks_improved.value_or(0) + rows * *error.blocks_improved;
      sum.distortion.Merge(error.distortion);
      if (with_attention) pooled_.attention.baselines[b].Merge(head.attention.baselines[b]);
    }
    pooled_.attention.logits_from_moment |= head.attention.logits_from_moment;
    AddRatio(head.errors, kHadamardIndex, to_hadamard_);
    AddRatio(head.errors, kHadamardOffsetIndex, to_hadamard_offset_);
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

// One per file, over all layers of the table.
std::vector<std::string> DumpHashes(std::span<const LayerHashes> layers, std::size_t num_files) {
  std::vector<std::string> hashes;
  for (std::size_t f = 0; f < num_files; ++f) {
    std::string text;
    for (const LayerHashes& layer : layers)
      for (const auto& [dataset, hash] : layer.per_file[f])
        text += std::to_string(layer.layer) + ' ' + dataset + ' ' + hash + '\n';
    hashes.push_back(ContentHash(std::as_bytes(std::span(text))));
  }
  return hashes;
}

void PoolHeads(Report& report) {
  std::array<Pool, 3> model;
  std::map<int, std::array<Pool, 3>> layers;
  for (const HeadReport& head : report.heads)
    for (std::array<Pool, 3>* pools : {&model, &layers[head.layer]}) {
      (*pools)[static_cast<std::size_t>(StoredOf(head.side))].Add(head, true);
      (*pools)[static_cast<std::size_t>(StoredSides::kBoth)].Add(head, head.side == Side::kKey);
    }
  const auto results = [](const std::array<Pool, 3>& pools) {
    return std::array<PooledReport, 3>{pools[0].Result(), pools[1].Result(), pools[2].Result()};
  };
  for (const auto& [layer, pools] : layers) report.layers.push_back({layer, results(pools)});
  report.pools = results(model);
}

// "layers 0, 12: why"; without numbers where it is true of the whole table.
std::vector<std::string> Notes(const MissingByReason& missing, std::size_t num_layers) {
  std::vector<std::string> notes;
  for (const auto& [reason, layers] : missing) {
    std::string where;
    if (layers.size() < num_layers)
      where = (layers.size() == 1 ? "layer " : "layers ") +
              LayerListText(std::vector<int>(layers.begin(), layers.end())) + ": ";
    notes.push_back(where + reason);
  }
  return notes;
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
  MissingByReason missing;
  if (report.known_dump)
    for (const auto& [layer, datasets] : OtherDatasets(table, hashes))
      for (const std::string& dataset : datasets)
        missing[dataset + " is not the one that the fit used, though k and v are"].insert(layer);
  for (const LayerTable& layer : table.layers) {
    std::vector<HeadReport> heads = MeasureLayer(table, layer, dump, tokens, missing);
    std::move(heads.begin(), heads.end(), std::back_inserter(report.heads));
  }
  report.notes = Notes(missing, table.layers.size());
  PoolHeads(report);
  return report;
}

}  // namespace so4cal
