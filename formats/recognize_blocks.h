// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "lib/transform.h"

namespace so4cal {

// U (row-major, head_dim^2) as a stage of SO(4) blocks of stride 1, after the Hadamard transform if
// `hadamard`. Nothing where an entry of U is further than `tolerance` from that form.
std::optional<HeadTransform> RecognizeBlocks(std::span<const double> u, int head_dim, bool hadamard,
                                             double tolerance);

bool IsIdentity(std::span<const double> u, int head_dim, double tolerance);

}  // namespace so4cal
