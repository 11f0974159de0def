// SPDX-License-Identifier: Apache-2.0
#include "app/inspection.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/layer_list.h"
#include "app/parallel.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int> LayerIds(const KvDump& dump) {
  std::vector<int> ids;
  for (const LayerInfo& layer : dump.layers()) ids.push_back(layer.layer);
  return ids;
}

std::string FileLines(const KvDump& dump) {
  std::string text;
  for (const DumpFile& file : dump.files())
    text += fmt::format("file         {}: {} tokens in {} sequences, {} bytes\n", file.name, file.num_tokens,
                        file.sequence_starts.size(), file.size_bytes);
  if (dump.num_tokens() < DumpOptions::kMinTokens)
    text += fmt::format("             fewer than {} tokens: fit wants --allow-few-tokens\n",
                        DumpOptions::kMinTokens);
  text += fmt::format("model        {}\n", dump.model().empty() ? "not said" : dump.model());
  const std::string of = dump.num_model_layers() > 0
                             ? fmt::format("of the model's {}", dump.num_model_layers())
                             : std::string("(the dump does not say how many the model has)");
  return text +
         fmt::format("layers       {} {}: {}\n", dump.layers().size(), of, LayerListText(LayerIds(dump)));
}

std::string DatasetText(const char* name, const DatasetInfo& info) {
  return fmt::format("{} [{} rows, {} heads, {}] {}, axes {}, filters {}", name, info.num_rows,
                     info.num_heads, info.channels, info.dtype, info.axes, info.filters);
}

// What one layer holds, without its number.
std::string LayerText(const LayerInfo& layer) {
  std::string text = fmt::format("  {}\n  {}\n  ", DatasetText("k", layer.k), DatasetText("v", layer.v));
  text += layer.q ? DatasetText("q", *layer.q) : std::string(layer.has_q_moment ? "q_moment" : "no q");
  if (layer.has_q_positions) text += ", with positions";
  if (layer.q && layer.has_q_moment) text += ", q_moment";
  text += layer.has_w_o ? "; w_o" : "; no w_o";
  text += fmt::format("; softmax scale {:.6g}", layer.softmax_scale);
  if (layer.sliding_window) text += fmt::format("; sliding window {}", *layer.sliding_window);
  if (layer.softmax_sink) text += "; learned softmax sinks";
  return text + '\n';
}

// Layers that hold the same are told together.
std::string LayerLines(const KvDump& dump) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (const LayerInfo& layer : dump.layers()) {
    std::string text = LayerText(layer);
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == text; });
    if (same == groups.end())
      groups.push_back({std::move(text), {layer.layer}});
    else
      same->second.push_back(layer.layer);
  }
  std::string text;
  for (const auto& [what, ids] : groups) text += fmt::format("layer {}:\n{}", LayerListText(ids), what);
  return text;
}

// "3: 0,17,41", at most five.
template <class T>
std::string ListText(const std::vector<T>& values) {
  std::string text = std::to_string(values.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 5); ++i)
    text += (i == 0 ? ": " : ",") + std::to_string(values[i]);
  return values.size() > 5 ? text + ",..." : text;
}

Json DatasetJson(const DatasetInfo& info) {
  return {{"num_heads", info.num_heads}, {"channels", info.channels}, {"num_rows", info.num_rows},
          {"dtype", info.dtype},         {"axes", info.axes},         {"filters", info.filters}};
}

Json LayerJson(const LayerInfo& layer) {
  Json json;
  json["layer"] = layer.layer;
  json["k"] = DatasetJson(layer.k);
  json["v"] = DatasetJson(layer.v);
  json["q"] = layer.q ? DatasetJson(*layer.q) : Json(nullptr);
  json["has_q_positions"] = layer.has_q_positions;
  json["has_q_moment"] = layer.has_q_moment;
  json["has_w_o"] = layer.has_w_o;
  json["softmax_scale"] = layer.softmax_scale;
  json["sliding_window"] = layer.sliding_window ? Json(*layer.sliding_window) : Json(nullptr);
  json["softmax_sink"] = layer.softmax_sink;
  return json;
}

}  // namespace

std::vector<HeadInspection> InspectHeads(const KvDump& dump) {
  std::vector<HeadInspection> heads;
  for (const LayerInfo& layer : dump.layers())
    for (const Side side : kSides) {
      const Activations activations = dump.Read(layer.layer, side);
      std::vector<HeadInspection> found(static_cast<std::size_t>(activations.num_heads));
      ParallelFor(found.size(), [&](std::size_t h) {
        const int head = static_cast<int>(h);
        found[h] = {layer.layer, side, head, MeasureStatistics(activations.head(head))};
      });
      heads.insert(heads.end(), found.begin(), found.end());
    }
  return heads;
}

std::string InspectionText(const KvDump& dump, const std::vector<HeadInspection>& heads) {
  std::string text = FileLines(dump) + LayerLines(dump);
  text += "\nlayer   head   max abs      rms  kurtosis  mean%  outlier channels  sink tokens\n";
  for (const HeadInspection& head : heads) {
    const HeadStatistics& s = head.statistics;
    text += fmt::format("{:>5} {} {:>4} {:>9.3f} {:>8.3f} {:>9.2f} {:>6.1f}  {:<16}  {}{}\n", head.layer,
                        SideName(head.side), head.head, s.max_abs, s.rms, s.kurtosis,
                        100 * s.mean_energy_share, ListText(s.outlier_channels), ListText(s.sink_tokens),
                        s.constant ? "  CONSTANT: fit wants --allow-constant-heads" : "");
  }
  text += fmt::format(
      "kurtosis: of all values, 3 is normal, more is harder. mean%: energy that --offset mean "
      "removes.\noutlier "
      "channels: RMS above {} times the median channel's. sink tokens: norm more than {} times off the "
      "median.\n",
      HeadStatistics::kOutlierFactor, HeadStatistics::kSinkFactor);
  return text;
}

std::string InspectionJson(const KvDump& dump, const std::vector<HeadInspection>& heads) {
  Json json;
  json["format"] = "so4cal-inspect";
  json["version"] = 1;
  json["model"] = dump.model();
  json["num_model_layers"] = dump.num_model_layers() > 0 ? Json(dump.num_model_layers()) : Json(nullptr);
  json["num_tokens"] = dump.num_tokens();
  json["files"] = Json::array();
  for (const DumpFile& file : dump.files())
    json["files"].push_back({{"name", file.name},
                             {"size", file.size_bytes},
                             {"num_tokens", file.num_tokens},
                             {"sequence_starts", file.sequence_starts}});
  json["layers"] = Json::array();
  for (const LayerInfo& layer : dump.layers()) json["layers"].push_back(LayerJson(layer));
  json["heads"] = Json::array();
  for (const HeadInspection& head : heads) {
    const HeadStatistics& s = head.statistics;
    json["heads"].push_back({{"layer", head.layer},
                             {"side", SideName(head.side)},
                             {"kv_head", head.head},
                             {"max_abs", s.max_abs},
                             {"rms", s.rms},
                             {"kurtosis", s.kurtosis},
                             {"mean_energy_share", s.mean_energy_share},
                             {"outlier_channels", s.outlier_channels},
                             {"sink_tokens", s.sink_tokens},
                             {"constant", s.constant}});
  }
  return json.dump(1) + '\n';
}

}  // namespace so4cal
