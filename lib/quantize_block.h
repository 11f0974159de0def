// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lib/grids.h"

namespace so4cal {

inline constexpr float kLargestHalf = 65504.0f;

// How to scale one block: the fp16 pattern that is stored, and its value.
struct BlockScale {
  std::uint16_t half = 0;
  float value = 0;        // 0: an all-zero block
  bool overflow = false;  // the scale is above 65504 or not finite: the block can't be stored
};

// lib/CODEC.md, "Scale rules". z holds one block, at most 1024 finite values.
BlockScale ChooseScale(const Grid& grid, ScaleRule rule, std::span<const float> z) noexcept;

// value to fp16 and back; overflow when |value| > 65504 or NaN. A value that rounds to 0 gives +0.
BlockScale RoundScale(float value) noexcept;

// Code of the level nearest to u, ties to the higher code: the number of midpoints at or below u.
inline std::uint8_t NearestCode(const Grid& grid, float u) noexcept {
  unsigned code = 0;
  for (const float midpoint : grid.midpoints) code += u >= midpoint ? 1u : 0u;
  return static_cast<std::uint8_t>(code);
}

// Codes of z / scale (multiplied by the float reciprocal); the zero code throughout for an all-zero block.
void ChooseCodes(const Grid& grid, float scale, std::span<const float> z,
                 std::span<std::uint8_t> codes) noexcept;

// Sum of a[i] * b[i] in float in the fixed order of lib/CODEC.md, "Sums": eight partial sums by i mod 8,
// then ((0+4)+(2+6)) + ((1+5)+(3+7)).
float FixedDot(std::span<const float> a, std::span<const float> b) noexcept;

}  // namespace so4cal
