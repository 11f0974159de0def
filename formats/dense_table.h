// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lib/rotation_table.h"

namespace so4cal {

// Rotations alone, as engines read them: dense matrices in f32 and offsets, without codec, structure or
// provenance.
struct DenseSide {
  int head_dim = 0;
  std::vector<std::vector<float>> rotations;  // per KV head, row-major [d, d]: R = U^T for rows, y = x @ R
  std::vector<std::vector<float>> offsets;    // per KV head, [d]; empty: no head has one
};
struct DenseLayer {
  int layer = 0;                   // global layer id of the model
  std::array<DenseSide, 2> sides;  // indexed by Side
  DenseSide& side(Side s) { return sides[static_cast<std::size_t>(s)]; }
  const DenseSide& side(Side s) const { return sides[static_cast<std::size_t>(s)]; }
};

// R of the map that the head's `chosen` selects, row-major [d, d].
std::vector<float> RowRotation(const HeadTable& head);

// A head without an offset gets zeros where another head of the side has one.
std::vector<DenseLayer> ToDense(const RotationTable& table);

// Says in words what the matrices of a dense file are; stored in each of them.
extern const char kRowConventionText[];

// What so4cal's own dense files remember beside the rotations: tool version, model, the codec of every side,
// as JSON. TableFromDense reads it back; files of other tools have none.
std::string DenseProvenance(const RotationTable& table, const std::string& where);

// What a file of rotations alone does not say. Files that hold a whole table ignore it.
struct ReadOptions {
  // The codec of tables made from them; the default is that of `fit`: 3 bits, lloyd, mse, blocks of at
  // most 32.
  std::function<CodecSpec(Side side, int head_dim)> codec;
  int num_kv_heads = 0;  // for files with one rotation per layer; 0: not known
};

// A table of these rotations, nearest rounding. Where all heads of a side are a Hadamard transform followed
// by SO(4) blocks, or blocks alone, they become quaternions (family so4), otherwise they stay dense. Matrices
// off by more than 1e-4 in R R^T (bf16) are replaced by the nearest orthogonal ones, which the layer's counts
// say; above 5e-3, or with det R = -1 in a block, nothing is guessed: Error, or dense. `provenance` is
// DenseProvenance's text, or empty.
RotationTable TableFromDense(std::vector<DenseLayer> layers, const std::string& provenance,
                             const ReadOptions& options, const std::string& where);

}  // namespace so4cal
