// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace so4cal {

// Conversions of whole arrays, the same bits as the scalar functions of lib/half.h on every SIMD target.
// `in` and `out` have the same length and don't overlap.
void F16ToF32(std::span<const std::uint16_t> in, std::span<float> out) noexcept;
void Bf16ToF32(std::span<const std::uint16_t> in, std::span<float> out) noexcept;
void F64ToF32(std::span<const double> in, std::span<float> out) noexcept;
void F32ToF16(std::span<const float> in, std::span<std::uint16_t> out) noexcept;
void F32ToBf16(std::span<const float> in, std::span<std::uint16_t> out) noexcept;

}  // namespace so4cal
