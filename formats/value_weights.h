// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/element_types.h"
#include "formats/model_files.h"

namespace so4cal {

// A weight that a fold rewrites in its place: row-major [rows, columns]; a bias has one column.
struct WeightTensor {
  std::string name, file;
  ElementType type = ElementType::kF32;
  std::uint64_t rows = 0, columns = 0;
  std::uint64_t begin = 0;  // bytes from the start of the file
};

// What the values of one layer pass through on their way into the cache and behind it.
struct ValueWeights {
  WeightTensor v, o;  // [Hkv * Dv, M], [M, Hq * Dv]
  std::optional<WeightTensor> v_bias, o_bias;
  bool sinks = false;  // learned sink logits: the weights of a token's attention sum to less than one
};

// Layers with an output projection behind attention, ascending.
std::vector<int> AttentionLayers(const ModelFiles& model);

// The projections of a layer. Every tensor of its attention must be of a kind that a value rotation is known
// to leave alone (kAllowed in value_weights.cc): anything else is refused by name. Throws Error with the
// reason and what to do: no such layer, several models in one, quantized, fused, latent or shared
// projections, norms or gates on the way.
ValueWeights FindValueWeights(const ModelFiles& model, int layer);

}  // namespace so4cal
