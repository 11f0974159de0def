// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "formats/model_files.h"
#include "formats/value_weights.h"
#include "formats/weight_numbers.h"
#include "lib/engine_rotation.h"
#include "lib/rotation_table.h"

namespace so4cal {

// A layer of the table and the weights that take its value rotations.
struct LayerFold {
  const LayerTable* table = nullptr;
  ValueWeights weights;
  std::size_t query_heads = 0;
};

// One per layer of the table. Throws Error, before anything is written, when a layer can't be folded: what
// FindValueWeights refuses, other heads or another head size in the model than in the table, an offset
// without biases to take it, an engine rotation of another size.
std::vector<LayerFold> PlanFold(const ModelFiles& model, const RotationTable& table,
                                const EngineRotation& rotation);

// Where a weight file of this base name is.
using PathOf = std::function<std::filesystem::path(const std::string& file)>;

// Reads the layer's weights of the model, writes them folded into the copy; nothing else of the copy changes.
// Holds some megabytes at a time. Returns what rounding to 16 bits changed, zero when no weight has 16.
RoundingChange FoldLayer(const LayerFold& fold, const EngineRotation& rotation, const PathOf& model,
                         const PathOf& copy);

}  // namespace so4cal
