// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize_block.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "lib/half.h"

namespace so4cal {
namespace {

constexpr std::size_t kMaxBlock = 1024;

// Signed for `full`: its outermost level is the lowest one, so that the largest value is exact.
float AbsmaxScale(const Grid& grid, std::span<const float> z) noexcept {
  std::size_t k = 0;
  for (std::size_t i = 1; i < z.size(); ++i)
    if (std::abs(z[i]) > std::abs(z[k])) k = i;
  return grid.kind == GridKind::kFull ? -z[k] / grid.top : std::abs(z[k]) / grid.top;
}

// Nearest levels of z / scale, into g.
void NearestLevels(const Grid& grid, float scale, std::span<const float> z, std::span<float> g) noexcept {
  std::array<std::uint8_t, kMaxBlock> codes;
  ChooseCodes(grid, scale, z, std::span(codes).first(z.size()));
  for (std::size_t i = 0; i < z.size(); ++i) g[i] = grid.levels[codes[i]];
}

// Searches the rungs, then solves for the scale under the best rung's levels.
float MseScale(const Grid& grid, float absmax_scale, std::span<const float> z) noexcept {
  std::array<float, kMaxBlock> storage;
  const std::span<float> g = std::span(storage).first(z.size());
  float best_score = 0, best_scale = 0;
  for (const float ratio : grid.mse_ratios) {
    NearestLevels(grid, ratio * absmax_scale, z, g);
    const float zg = FixedDot(z, g), gg = FixedDot(g, g);
    if (gg == 0) continue;
    const float score = -(zg * zg) / gg;
    if (score < best_score) {
      best_score = score;
      best_scale = zg / gg;
    }
  }
  return best_scale;
}

}  // namespace

float FixedDot(std::span<const float> a, std::span<const float> b) noexcept {
  std::array<float, 8> sum{};
  std::size_t i = 0;
  for (; i + 8 <= a.size(); i += 8)
    for (std::size_t k = 0; k < 8; ++k) sum[k] += a[i + k] * b[i + k];
  for (; i < a.size(); ++i) sum[i % 8] += a[i] * b[i];
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

BlockScale RoundScale(float value) noexcept {
  if (!(std::abs(value) <= kLargestHalf)) return {0, 0, true};
  const std::uint16_t half = HalfFromFloat(value);
  if ((half & 0x7fff) == 0) return {};
  return {half, FloatFromHalf(half), false};
}

BlockScale ChooseScale(const Grid& grid, ScaleRule rule, std::span<const float> z) noexcept {
  const float absmax_scale = AbsmaxScale(grid, z);
  const BlockScale rounded = RoundScale(absmax_scale);
  if (rule == ScaleRule::kAbsmax || rounded.overflow || rounded.value == 0) return rounded;
  return RoundScale(MseScale(grid, absmax_scale, z));
}

void ChooseCodes(const Grid& grid, float scale, std::span<const float> z,
                 std::span<std::uint8_t> codes) noexcept {
  const float inverse = scale == 0 ? 0 : 1.0f / scale;
  for (std::size_t i = 0; i < z.size(); ++i) codes[i] = 0;
  for (const float midpoint : grid.midpoints)
    for (std::size_t i = 0; i < z.size(); ++i)
      codes[i] = static_cast<std::uint8_t>(codes[i] + (z[i] * inverse >= midpoint ? 1 : 0));
}

}  // namespace so4cal
