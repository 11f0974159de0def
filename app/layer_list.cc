// SPDX-License-Identifier: Apache-2.0
#include "app/layer_list.h"

#include <charconv>
#include <set>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr int kMaxLayer = 99999;

int ParseLayer(std::string_view text, std::string_view all) {
  int layer = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (error != std::errc() || end != text.data() + text.size() || layer < 0 || layer > kMaxLayer)
    throw UsageError("--layers is '" + std::string(all) + "', expected layer ids and ranges such as 0-7,12");
  return layer;
}

}  // namespace

std::vector<int> ParseLayerList(std::string_view text) {
  std::set<int> layers;
  std::string_view rest = text;
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t dash = item.find('-');
    const int first = ParseLayer(item.substr(0, dash), text);
    const int last = dash == std::string_view::npos ? first : ParseLayer(item.substr(dash + 1), text);
    if (last < first) throw UsageError("--layers is '" + std::string(text) + "': a range must ascend");
    for (int layer = first; layer <= last; ++layer) layers.insert(layer);
    if (item.size() == rest.size()) return {layers.begin(), layers.end()};
    rest.remove_prefix(item.size() + 1);
  }
}

std::string LayerListText(std::span<const int> layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(layers[i]);
    if (last > i) text += '-' + std::to_string(layers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace so4cal
