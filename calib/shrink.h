// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lib/transform.h"

namespace so4cal {

// Shares of the way from start to fitted rotation that validation tokens may prefer to all of it.
inline constexpr double kShrinkShares[] = {0.75, 0.5, 0.25};

// Block by block the point at `share` (0 to 1) of the geodesic from start to fitted: slerp of both
// quaternions, with the sign of the fitted pair that is nearer to the start. Same strides in both.
std::vector<Stage> Shrink(const std::vector<Stage>& start, const std::vector<Stage>& fitted, double share);

}  // namespace so4cal
