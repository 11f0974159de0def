// SPDX-License-Identifier: Apache-2.0
#include "formats/dense_safetensors.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "formats/element_types.h"
#include "lib/error.h"

namespace so4cal {
namespace {

struct Name {
  int layer = 0;
  Side side = Side::kKey;
  bool offset = false;
};

std::optional<Name> ParseName(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return {};
  name.remove_prefix(at + kLayers.size());
  Name parsed;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), parsed.layer);
  if (error != std::errc() || parsed.layer < 0 || end == name.data() + name.size() || *end != '.') return {};
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (const Side side : kSides)
    for (const bool offset : {false, true})
      if (last == SideName(side) + std::string(offset ? "_offset" : "_rotation")) {
        parsed.side = side;
        parsed.offset = offset;
        return parsed;
      }
  return {};
}

// One vector per head; the last `rest` extents are those of a head.
std::vector<std::vector<float>> ReadHeads(const SafetensorsTensor& tensor, std::size_t rest,
                                          const std::string& where) {
  const std::optional<ElementType> type = ElementTypeOf(tensor.dtype);
  const std::string what = where + ": tensor '" + tensor.name + "'";
  if (!type) throw Error(what + " has the type " + tensor.dtype + ", expected F64, F32, F16 or BF16");
  if (tensor.shape.size() != rest && tensor.shape.size() != rest + 1)
    throw Error(what + " has " + std::to_string(tensor.shape.size()) + " dimensions, expected " +
                (rest == 2 ? "[H, d, d] or [d, d]" : "[H, d] or [d]"));
  std::uint64_t size = 1;
  for (std::size_t i = tensor.shape.size() - rest; i < tensor.shape.size(); ++i) size *= tensor.shape[i];
  if (size == 0 || tensor.shape.back() > 1024 || tensor.bytes.empty())
    throw Error(what + " is empty or larger than head_dim 1024");
  if (rest == 2 && tensor.shape.back() != tensor.shape[tensor.shape.size() - 2])
    throw Error(what + " is not square");
  std::vector<std::vector<float>> heads;
  const std::size_t element = ElementBytes(*type), count = tensor.bytes.size() / element;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % size == 0) heads.emplace_back();
    heads.back().push_back(static_cast<float>(LoadElement(*type, tensor.bytes.data() + i * element)));
  }
  return heads;
}

}  // namespace

std::vector<DenseLayer> DenseFromSafetensors(const SafetensorsFile& file, const std::string& where) {
  std::vector<DenseLayer> layers;
  for (const SafetensorsTensor& tensor : file.tensors) {
    const std::optional<Name> name = ParseName(tensor.name);
    if (!name) continue;
    auto layer =
        std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.layer == name->layer; });
    if (layer == layers.end()) layer = layers.insert(layers.end(), {name->layer, {}});
    DenseSide& side = layer->side(name->side);
    auto& heads = name->offset ? side.offsets : side.rotations;
    if (!heads.empty())
      throw Error(where + ": tensor '" + tensor.name + "' names a layer and side that came before");
    heads = ReadHeads(tensor, name->offset ? 1 : 2, where);
    if (!name->offset) side.head_dim = static_cast<int>(tensor.shape.back());
  }
  if (layers.empty()) throw Error(where + ": has no tensors layers.N.k_rotation and layers.N.v_rotation");
  for (const DenseLayer& layer : layers)
    for (const Side s : kSides)
      if (layer.side(s).rotations.empty())
        throw Error(where + ": layer " + std::to_string(layer.layer) + " has no " + SideName(s) +
                    "_rotation");
  return layers;
}

}  // namespace so4cal
