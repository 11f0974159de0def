// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace so4cal {

// The largest |x_i - offset_i| of a row; infinity or NaN when some x_i is. `offset` is empty (zeros) or as
// long as x.
float RowMagnitude(std::span<const float> x, std::span<const float> offset) noexcept;

}  // namespace so4cal
