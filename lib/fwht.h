// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace so4cal {

// In place Walsh-Hadamard transform of every `section` consecutive floats, natural (Sylvester) order, scaled
// by 1 / sqrt(section): its own inverse. section is a power of two, at least 4, and divides x.size().
// Strides 1, 2, 4, ... in this order, one multiplication at the end: the same bits on every SIMD target.
void Fwht(std::span<float> x, std::size_t section) noexcept;

}  // namespace so4cal
