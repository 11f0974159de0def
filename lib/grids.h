// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lib/names.h"

namespace so4cal {

enum class GridKind : std::uint8_t { kSymmetric = 0, kFull = 1, kLloyd = 2 };
enum class ScaleRule : std::uint8_t { kAbsmax = 0, kMse = 1 };

std::span<const Named<GridKind>> GridKinds();    // symmetric, full, lloyd
std::span<const Named<ScaleRule>> ScaleRules();  // absmax, mse

// The levels that a code may stand for, in units of the block's scale. lib/CODEC.md, "Grids".
struct Grid {
  GridKind kind;
  int bits;                           // 2, 3 or 4
  std::span<const float> levels;      // ascending; code c means levels[c]; 2^bits, `symmetric` one less
  std::span<const float> midpoints;   // levels.size() - 1 decision thresholds; a tie takes the higher code
  float top;                          // scale of `absmax` is max|z| / top (4 at 3 bits for `full`)
  std::uint8_t zero_code;             // code of the level nearest 0, the higher one where two tie
  std::span<const float> mse_ratios;  // rungs of the `mse` search, relative to the absmax scale
};

// bits must be 2, 3 or 4: anything else is a bug (CodecSpec::Check() guards user input).
const Grid& GridFor(GridKind kind, int bits);

}  // namespace so4cal
