// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "app/report.h"
#include "app/simd.h"
#include "lib/version.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

Json Finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json ErrorsJson(const BaselineErrors& errors, const AttentionReport& attention, StoredSides stored) {
  Json json;
  for (std::size_t b = 0; b < kNumBaselines; ++b) {
    Json& of_baseline = json[std::string(Baselines()[b].name)];
    for (const ErrorFigure& figure : ErrorFigures())
      of_baseline[std::string(figure.key)] = Finite(figure.value(errors[b], attention, b, stored));
  }
  return json;
}

Json TableJson(const Report& report) {
  const RotationTable& table = *report.table;
  Json layers = Json::array();
  for (const LayerTable& layer : table.layers) layers.push_back(layer.layer);
  return {{"name", report.table_path.filename().string()},
          {"format_version", RotationTable::kFormatVersion},
          {"tool_version", table.tool_version},
          {"model", table.model},
          {"num_model_layers", table.num_model_layers == 0 ? Json(nullptr) : Json(table.num_model_layers)},
          {"layers", layers},
          {"seed", table.seed},
          {"options", Json::parse(table.options_json, nullptr, false)},
          {"simd_target", table.simd_target},
          {"counts", table.TotalCounts()}};
}

Json DumpsJson(const Report& report) {
  Json dumps = Json::array();
  for (std::size_t f = 0; f < report.dump->files().size(); ++f) {
    const DumpFile& file = report.dump->files()[f];
    dumps.push_back({{"name", file.name},
                     {"size", file.size_bytes},
                     {"hash", report.dump_hashes[f]},
                     {"model", report.dump->model()}});
  }
  return dumps;
}

Json StridesJson(const HeadTransform& transform) {
  Json strides = Json::array();
  for (const Stage& stage : transform.stages) strides.push_back(stage.stride);
  return strides;
}

Json HeadJson(const Report& report, const HeadReport& head) {
  const SideTable& side = report.table->FindLayer(head.layer)->side(head.side);
  const HeadTable& table = side.heads[static_cast<std::size_t>(head.head)];
  const HeadOutcome& outcome = side.outcomes[static_cast<std::size_t>(head.head)];
  Json json;
  json["layer"] = head.layer;
  json["side"] = SideName(head.side);
  json["kv_head"] = head.head;
  json["chosen"] = NameOf(ChosenNames(), table.chosen);
  json["codec"] = {{"bits", side.codec.bits},
                   {"block", side.codec.block},
                   {"grid", NameOf(GridKinds(), side.codec.grid)},
                   {"scale", NameOf(ScaleRules(), side.codec.scale)},
                   {"rounding", NameOf(Roundings(), table.rounding)},
                   {"bits_per_value", side.codec.bits_per_value()}};
  json["table_bytes"] = head.table_bytes;
  json["tokens"] = {{"fit", report.known_dump ? Json(report.fit_tokens) : Json(nullptr)},
                    {"validation", report.known_dump ? Json(report.validation_tokens) : Json(nullptr)},
                    {"test", report.test_tokens}};
  json["family"] = NameOf(Families(), side.family);
  json["strides"] = StridesJson(table.transform);
  json["hadamard"] = table.transform.hadamard;
  const bool nearest = table.rounding == Rounding::kNearest;
  json["damping"] = nearest ? Json(nullptr) : Json(table.damping);
  json["rounds"] = table.rounding == Rounding::kRefined ? Json(table.rounds) : Json(nullptr);
  json["errors"] = ErrorsJson(head.errors, head.attention, StoredOf(head.side));
  json["headroom_db"] = Finite(head.headroom_db);
  json["decision_metric"] = DecisionMetric(outcome.objective);
  json["verdict"] = head.verdict ? Json(head.verdict->name()) : Json(nullptr);
  json["interval"] =
      head.verdict ? Json({head.verdict->interval.low, head.verdict->interval.high}) : Json(nullptr);
  return json;
}

Json ModelJson(const Report& report) {
  Json model;
  for (const StoredSides stored : kStoredSides) {
    const PooledReport& pool = report.pools[static_cast<std::size_t>(stored)];
    model[StoredName(stored)] = {{"errors", ErrorsJson(pool.errors, pool.attention, stored)},
                                 {"ratio_to_hadamard", Finite(pool.ratio_to_hadamard)},
                                 {"ratio_to_hadamard_offset", Finite(pool.ratio_to_hadamard_offset)}};
  }
  return model;
}

Json LayersJson(const Report& report) {
  Json layers = Json::array();
  for (const LayerReport& layer : report.layers)
    for (const StoredSides stored : kStoredSides) {
      const PooledReport& pool = layer.pools[static_cast<std::size_t>(stored)];
      layers.push_back({{"layer", layer.layer},
                        {"side", StoredName(stored)},
                        {"errors", ErrorsJson(pool.errors, pool.attention, stored)}});
    }
  return layers;
}

}  // namespace

std::string ReportJson(const Report& report) {
  Json json;
  json["format"] = "so4cal-report";
  json["version"] = 1;
  json["tool"] = {{"name", "so4cal"}, {"version", kVersion}, {"simd_target", BestSimdTarget()}};
  json["table"] = TableJson(report);
  json["dumps"] = DumpsJson(report);
  json["test_tokens_from"] = report.known_dump ? "table" : "all";
  json["heads"] = Json::array();
  for (const HeadReport& head : report.heads) json["heads"].push_back(HeadJson(report, head));
  json["layers"] = LayersJson(report);
  json["model"] = ModelJson(report);
  json["notes"] = report.notes;
  return json.dump(1) + '\n';
}

// The heads of the JSON, one row each; nested keys are joined with dots, the errors' own prefix is left out.
std::string ReportCsv(const Report& report) {
  std::string header, rows;
  for (const HeadReport& head : report.heads) {
    Json json = HeadJson(report, head);
    const Json errors = json["errors"];
    json.erase("errors");
    if (json["interval"].is_null()) json["interval"] = {nullptr, nullptr};  // the same columns in every row
    json.update(errors);
    const bool first = header.empty();
    std::string row;
    const Json flat = json.flatten();  // items() does not keep a temporary alive
    for (const auto& [pointer, value] : flat.items()) {
      std::string key = pointer.substr(1);
      std::replace(key.begin(), key.end(), '/', '.');
      if (key.starts_with("strides")) continue;  // a list: see the JSON
      if (first) header += (header.empty() ? "" : ",") + key;
      row += (row.empty() ? "" : ",") + (value.is_null()     ? ""
                                         : value.is_string() ? value.get<std::string>()
                                                             : value.dump());
    }
    rows += row + '\n';
  }
  return header + '\n' + rows;
}

}  // namespace so4cal
