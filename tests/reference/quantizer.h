// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/codec_spec.h"

namespace so4cal::reference {

// calib/MATH.md section 2 in double, by search over the levels instead of midpoints.
inline double NearestLevel(const Grid& grid, double u) {
  double best = grid.levels[0];
  for (const float level : grid.levels)
    if (std::abs(level - u) <= std::abs(best - u)) best = level;
  return best;
}

inline double AbsmaxScale(const Grid& grid, std::span<const float> z) {
  double largest = 0;
  for (const float v : z)
    if (std::abs(v) > std::abs(largest)) largest = v;
  return grid.kind == GridKind::kFull ? -largest / grid.top : std::abs(largest) / grid.top;
}

// Least-squares scale under the levels of the best rung.
inline double MseScale(const Grid& grid, std::span<const float> z) {
  double best_score = 0, best_scale = 0;
  for (const float ratio : grid.mse_ratios) {
    double zg = 0, gg = 0;
    for (const float v : z) {
      const double g = NearestLevel(grid, v / (ratio * AbsmaxScale(grid, z)));
      zg += g * v;
      gg += g * g;
    }
    if (gg > 0 && -zg * zg / gg < best_score) {
      best_score = -zg * zg / gg;
      best_scale = zg / gg;
    }
  }
  return best_scale;
}

// Squared error of a block with a given scale and nearest levels.
inline double BlockError(const Grid& grid, double scale, std::span<const float> z) {
  double sum = 0;
  for (const float v : z) {
    const double e = scale == 0 ? v : scale * NearestLevel(grid, v / scale) - v;
    sum += e * e;
  }
  return sum;
}

// A row read bit by bit from the description of the format (lib/CODEC.md): code of channel i.
inline int CodeOf(const CodecSpec& spec, std::span<const std::uint8_t> row, int i) {
  const std::uint8_t* low = row.data() + 2 * (spec.head_dim / spec.block);
  const std::uint8_t* high = low + spec.head_dim / 4;
  int code = (low[i / 4] >> (2 * (i % 4))) & 3;
  if (spec.bits == 3) code += 4 * ((high[i / 8] >> (i % 8)) & 1);
  if (spec.bits == 4) code += 4 * ((high[i / 4] >> (2 * (i % 4))) & 3);
  return code;
}

inline double ScaleOf(const CodecSpec& spec, std::span<const std::uint8_t> row, int i) {
  const auto b = static_cast<std::size_t>(i / spec.block);
  const int half = row[2 * b] + 256 * row[2 * b + 1];
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half >= 0x8000 ? -magnitude : magnitude;
}

inline std::vector<double> DecodeRotatedRow(const CodecSpec& spec, std::span<const std::uint8_t> row) {
  std::vector<double> z;
  for (int i = 0; i < spec.head_dim; ++i)
    z.push_back(ScaleOf(spec, row, i) *
                static_cast<double>(
                    GridFor(spec.grid, spec.bits).levels[static_cast<std::size_t>(CodeOf(spec, row, i))]));
  return z;
}

}  // namespace so4cal::reference
