// SPDX-License-Identifier: Apache-2.0
#include "app/resume.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>

#include "app/interrupt.h"
#include "formats/table_merge.h"
#include "lib/error.h"

namespace so4cal {
namespace {

[[noreturn]] void Refuse(const PartialTable& partial, const std::string& differences) {
  const std::string folder = partial.folder().string();
  throw Error(
      fmt::format("'{}' holds finished layers of another fit: {}; give that fit's options and dumps to go on "
                  "with it, or remove the folder (rm -r '{}') to begin anew",
                  folder, differences, folder));
}

// "layer 3: content of k in a.h5", for what the fit read and the dump no longer has.
std::vector<std::string> OtherContent(const LayerTable& layer, const KvDump& dump) {
  std::vector<std::string> others;
  const auto now = dump.Hashes(layer.layer);
  for (std::size_t f = 0; f < layer.hashes.size(); ++f)
    for (const auto& [dataset, hash] : layer.hashes[f]) {
      const auto found = now[f].find(dataset);
      if (found == now[f].end() || found->second != hash)
        others.push_back(
            fmt::format("content of {} of layer {} in dump {}", dataset, layer.layer, dump.files()[f].name));
    }
  return others;
}

}  // namespace

std::optional<std::vector<LayerTable>> ResumableLayers(const PartialTable& partial,
                                                       const RotationTable& table, const KvDump& dump,
                                                       std::span<const int> layers) {
  std::vector<RotationTable> finished = partial.ReadLayers();
  std::vector<LayerTable> resumable;
  for (RotationTable& one : finished) {
    if (Interrupted()) return {};
    const auto differences = FitDifferences(one, table);
    if (!differences.empty()) Refuse(partial, DifferencesText(differences, "there", "this command"));
    LayerTable& layer = one.layers[0];
    if (std::ranges::find(layers, layer.layer) == layers.end())
      Refuse(partial, fmt::format("layer {} is there, and this command does not fit it (--layers, --shard)",
                                  layer.layer));
    if (const auto others = OtherContent(layer, dump); !others.empty())
      Refuse(partial, fmt::format("{} is not what it was", fmt::join(others, ", ")));
    resumable.push_back(std::move(layer));
  }
  return resumable;
}

}  // namespace so4cal
