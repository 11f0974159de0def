// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace so4cal {

// IEEE binary16 and bfloat16 as 16-bit patterns. Conversions to 16 bits round to nearest, ties to even;
// a NaN stays a NaN (its quiet bit is set, the upper payload bits and the sign are kept).

inline float FloatFromHalf(std::uint16_t h) noexcept {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(h & 0x7fff) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  if ((h & 0x7c00) == 0x7c00) {  // Inf, NaN
    const std::uint32_t quiet = (h & 0x03ff) != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | magnitude | 0x7f800000u | quiet);
  }
  // 2^112 moves the exponent from bias 15 to bias 127, subnormals included.
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}

inline std::uint16_t HalfFromFloat(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t h;
  if (magnitude > 0x7f800000u) {
    h = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  } else if (magnitude >= 0x47800000u) {  // 65536 and above
    h = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: the addition rounds at the subnormals' spacing 2^-24
    h = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {  // 65520..65536 carries into Inf
    h = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | h);
}

inline float FloatFromBfloat(std::uint16_t b) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

inline std::uint16_t BfloatFromFloat(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Rounds to odd: towards zero, and the last bit is set when that lost anything. A second rounding, to fewer
// bits, then gives what one rounding of the double would: the plain conversion to float would round twice.
inline float FloatToOdd(double value) noexcept {
  auto near = static_cast<float>(value);
  if (static_cast<double>(near) == value || std::isnan(value)) return near;
  if (std::abs(static_cast<double>(near)) > std::abs(value)) near = std::nextafter(near, 0.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) | 1u);
}

inline std::uint16_t HalfFromDouble(double value) noexcept { return HalfFromFloat(FloatToOdd(value)); }
inline std::uint16_t BfloatFromDouble(double value) noexcept { return BfloatFromFloat(FloatToOdd(value)); }

}  // namespace so4cal
