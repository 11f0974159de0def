// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace so4cal {

inline constexpr std::size_t kPanelRows = 4;            // lib/feedback_rounding.h, PanelMajor
inline constexpr std::size_t kEncodeTileFloats = 4096;  // channels times tokens
inline constexpr std::size_t kEquationDoubles = 8320;   // triangle of 64 blocks, 4 tokens

// What the kernels of lib/encode_rows.cc need of a codec.
struct EncodeArgs {
  std::size_t n, block, num_blocks;
  int bits;
  const float* levels;
  std::size_t num_levels;
  const float* midpoints;  // num_levels - 1
  float top;
  bool signed_absmax;  // the absmax scale is -z_k / top, not |z_k| / top
  const float* ratios = nullptr;
  std::size_t num_ratios = 0;     // 0: the absmax scale is kept
  const float* push = nullptr;    // panel-major F; null: nearest rounding
  const float* metric = nullptr;  // panel-major Mz
  int rounds = 0;
  std::size_t row_bytes, low_at, high_at;  // the planes of a row
};

// Some tokens side by side: value i of token t at i * width + t. width is a multiple of the vector.
struct EncodeTile {
  alignas(64) float z[kEncodeTileFloats];
  alignas(64) float level[kEncodeTileFloats];  // of the code chosen, in units of the scale
  alignas(64) float work[kEncodeTileFloats];
  alignas(64) float error[kEncodeTileFloats];
  alignas(64) float metric_z[kEncodeTileFloats];  // Mz z
  alignas(64) float scale[kEncodeTileFloats];     // per block; 0: a zero block
};

}  // namespace so4cal
