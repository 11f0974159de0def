// SPDX-License-Identifier: Apache-2.0
#include "app/table_match.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/fit_job.h"
#include "calib/split.h"
#include "lib/error.h"

namespace so4cal {
namespace {

void CheckSame(const std::string& where, const char* what, std::size_t table, std::size_t dump) {
  if (table == dump) return;
  throw Error(where + ": the table has " + what + " " + std::to_string(table) + ", the dump " +
              std::to_string(dump) + ": expected a dump of the model that the table was fitted for");
}

}  // namespace

std::uint64_t SkipTokens(const RotationTable& table) {
  const auto json = nlohmann::json::parse(table.options_json, nullptr, false);
  if (!json.is_object() || !json.contains("skip_tokens") || !json["skip_tokens"].is_number_unsigned())
    return SplitOptions{}.skip_tokens;
  return json["skip_tokens"].get<std::uint64_t>();
}

void CheckTableFitsDump(const RotationTable& table, const KvDump& dump) {
  for (const LayerTable& layer : table.layers) {
    const auto has_layer = [&](const LayerInfo& info) { return info.layer == layer.layer; };
    if (std::none_of(dump.layers().begin(), dump.layers().end(), has_layer))
      throw Error(dump.files().front().name + ": has no layer " + std::to_string(layer.layer) +
                  ", which the table has: expected a dump with all layers of the table");
    for (const Side side : kSides) {
      const LayerInfo& info = dump.layer(layer.layer);
      const DatasetInfo& data = side == Side::kKey ? info.k : info.v;
      const std::string where =
          dump.files().front().name + ", layer " + std::to_string(layer.layer) + " " + SideName(side);
      CheckSame(where, "KV heads:", layer.side(side).heads.size(), static_cast<std::size_t>(data.num_heads));
      CheckSame(where, "head_dim", static_cast<std::size_t>(layer.side(side).codec.head_dim),
                static_cast<std::size_t>(data.channels));
    }
  }
}

std::vector<LayerHashes> HashTableLayers(const RotationTable& table, const KvDump& dump) {
  std::vector<LayerHashes> hashes;
  for (const LayerTable& layer : table.layers) hashes.push_back({layer.layer, dump.Hashes(layer.layer)});
  return hashes;
}

bool KnowsDump(const RotationTable& table, std::span<const LayerHashes> dump) {
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    const auto& recorded = table.layers[i].hashes;
    if (recorded.size() != dump[i].per_file.size()) return false;
    for (std::size_t f = 0; f < recorded.size(); ++f)
      for (const Side side : kSides) {
        const auto known = recorded[f].find(SideName(side));
        if (known == recorded[f].end() || known->second != dump[i].per_file[f].at(SideName(side)))
          return false;
      }
  }
  return true;
}

std::map<int, std::set<std::string>> OtherDatasets(const RotationTable& table,
                                                   std::span<const LayerHashes> dump) {
  std::map<int, std::set<std::string>> others;
  for (std::size_t i = 0; i < table.layers.size(); ++i)
    for (std::size_t f = 0; f < dump[i].per_file.size(); ++f)
      for (const auto& [dataset, hash] : table.layers[i].hashes[f]) {
        const auto found = dump[i].per_file[f].find(dataset);
        if (found != dump[i].per_file[f].end() && found->second != hash)
          others[dump[i].layer].insert(dataset == "q_positions" ? "q" : dataset);
      }
  return others;
}

ReportTokens TokensToReport(const RotationTable& table, const KvDump& dump, bool known_dump) {
  std::vector<std::vector<TokenRange>> fit, test;
  ReportTokens tokens;
  if (known_dump) {
    for (const DumpRecord& record : table.dumps) {
      fit.push_back(record.split.fit);
      test.push_back(record.split.test);
      tokens.num_validation += NumTokens(record.split.validation);
    }
    tokens.fit = GlobalRanges(fit, TokenCounts(dump));
  } else {
    SplitOptions all;
    all.fit_percent = 100;
    all.validation_percent = all.test_percent = 0;
    all.skip_tokens = SkipTokens(table);
    for (TokenSplit& split : SplitTokens(TokensOfFiles(dump), all)) test.push_back(std::move(split.fit));
  }
  tokens.test = GlobalRanges(test, TokenCounts(dump));
  if (tokens.test.empty())
    throw Error(dump.files().front().name +
                ": no test tokens, the table was fitted on this dump with --split F,V,0: give another dump");
  return tokens;
}

}  // namespace so4cal
