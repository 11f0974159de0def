// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lib/rotation_table.h"
#include "lib/transform.h"

namespace so4cal {

// Pattern `index` (1, 2, ...) of random signs, the same for every head: head_dim values of +1 or -1.
std::vector<std::int8_t> SeededSigns(int head_dim, std::uint64_t seed, int index);

// Start `index` (1, 2, ...) elsewhere in the family: every quaternion (planar: every angle) of `start` moved
// by a random tangent step of standard deviation .5 per direction. The same for every head.
std::vector<Stage> PerturbedStages(Family family, const std::vector<Stage>& start, std::uint64_t seed,
                                   int index);

}  // namespace so4cal
