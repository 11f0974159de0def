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

// Keys that need queries or the output projection are null.
Json ErrorJson(const BaselineError& error) {
  const Distortion& d = error.distortion;
  Json json;
  json["nmse"] = Finite(d.nmse());
  json["nmse_centred"] = d.centred_energy > 0 ? Finite(d.nmse_centred()) : Json(nullptr);
  json["sqnr_db"] = Finite(d.sqnr_db());
  json["max_abs"] = Finite(d.max_abs);
  json["blocks_improved"] = error.blocks_improved ? Finite(*error.blocks_improved) : Json(nullptr);
  for (const char* key : {"logit_nmse", "logit_error", "attention_kl", "attention_top1", "output_nmse_head",
                          "output_nmse_wo", "output_nmse_wo_keys", "output_nmse_wo_values"})
    json[key] = nullptr;
  return json;
}

Json ErrorsJson(const BaselineErrors& errors) {
  Json json;
  for (std::size_t b = 0; b < kNumBaselines; ++b)
    json[std::string(Baselines()[b].name)] = ErrorJson(errors[b]);
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

std::string_view DecisionMetric(Objective objective) {
  switch (objective) {
    case Objective::kMse:
      return "nmse";
    case Objective::kLogit:
      return "logit_nmse";
    case Objective::kOutput:
      return "output_nmse_wo";
  }
  return "nmse";
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
  json["errors"] = ErrorsJson(head.errors);
  json["headroom_db"] = nullptr;
  json["decision_metric"] = DecisionMetric(outcome.objective);
  json["verdict"] = nullptr;
  json["interval"] = nullptr;
  return json;
}

Json PooledJson(const PooledReport& pooled) {
  return {{"errors", ErrorsJson(pooled.errors)},
          {"ratio_to_hadamard", Finite(pooled.ratio_to_hadamard)},
          {"ratio_to_hadamard_offset", Finite(pooled.ratio_to_hadamard_offset)}};
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
  json["layers"] = Json::array();
  for (const LayerReport& layer : report.layers)
    for (const Side side : kSides)
      json["layers"].push_back({{"layer", layer.layer},
                                {"side", SideName(side)},
                                {"errors", ErrorsJson(layer.sides[static_cast<std::size_t>(side)].errors)}});
  json["model"] = {{"k", PooledJson(report.sides[0])},
                   {"v", PooledJson(report.sides[1])},
                   {"kv", PooledJson(report.both)}};
  return json.dump(1) + '\n';
}

// The heads of the JSON, one row each; nested keys are joined with dots, the errors' own prefix is left out.
std::string ReportCsv(const Report& report) {
  std::string header, rows;
  for (const HeadReport& head : report.heads) {
    Json json = HeadJson(report, head);
    const Json errors = json["errors"];
    json.erase("errors");
    json.update(errors);
    const bool first = header.empty();
    std::string row;
    for (const auto& [pointer, value] : json.flatten().items()) {
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
