// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "lib/grids.h"
#include "lib/rotation_table.h"

namespace so4cal {

// Tokens are processed in tiles of this many, channel-major: token t of channel c of a tile is at
// c * kTileTokens + t. The last tile is padded with zero tokens, which cost nothing.
inline constexpr std::size_t kTileTokens = 64;

// What one evaluation reads. T is float, or double for the reference.
template <class T>
struct TokenLossData {
  int channels = 0;
  std::span<const int> strides;  // of the stages, first to last; may be empty
  std::span<const T> tiles;      // [tile][channel][kTileTokens]
  LossKind kind = LossKind::kExpected;
  ScaleRule scale = ScaleRule::kAbsmax;
  GridKind grid = GridKind::kSymmetric;
  int block = 0;  // quantization block, divides channels
  T top = 0;      // of the grid
  std::span<const T> levels, midpoints, mse_ratios;
  // Weight of each quantization block in the sum; empty means 1. The metric losses use it.
  std::span<const T> block_weights;
};

// Scratch of one evaluation, in elements of T.
std::size_t TokenLossWorkspace(int channels, std::size_t num_stages);

// The loss of calib/MATH.md section 3 at z = Stage_n ... Stage_1 x, summed over all tokens.
// matrices: [stage][channels/4][16], row-major. block_sums: the sum of each quantization block, overwritten.
// gradient: dE/d matrices of sum_b weight_b block_sums_b, overwritten; empty to skip it.
// Sums run in T over at most 16 tiles, then in double, in a fixed order.
void EvaluateTokenLoss(const TokenLossData<float>& data, std::span<const float> matrices,
                       std::span<float> workspace, std::span<double> gradient, std::span<double> block_sums);
void EvaluateTokenLoss(const TokenLossData<double>& data, std::span<const double> matrices,
                       std::span<double> workspace, std::span<double> gradient, std::span<double> block_sums);

}  // namespace so4cal
