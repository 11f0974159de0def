// SPDX-License-Identifier: Apache-2.0
#include "lib/pack.h"

#include <algorithm>
#include <cstddef>

namespace so4cal {
namespace {

// `width` bits of each code, from bit `shift` on, 8 / width codes to a byte, the first in the lowest bits.
void UnpackPlane(std::span<const std::uint8_t> plane, int shift, int width,
                 std::span<std::uint8_t> codes) noexcept {
  const int per_byte = 8 / width, mask = (1 << width) - 1;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int position = width * static_cast<int>(i % static_cast<std::size_t>(per_byte));
    const int bits = (plane[i / static_cast<std::size_t>(per_byte)] >> position) & mask;
    codes[i] = static_cast<std::uint8_t>(codes[i] | (bits << shift));
  }
}

int HighWidth(int bits) { return bits - 2; }  // 3 bits: 1, 4 bits: 2

}  // namespace

void UnpackScales(std::span<const std::uint8_t> row, std::span<std::uint16_t> scales) noexcept {
  for (std::size_t b = 0; b < scales.size(); ++b)
    scales[b] = static_cast<std::uint16_t>(row[2 * b] | (row[2 * b + 1] << 8));
}

void UnpackCodes(const CodecSpec& spec, std::span<const std::uint8_t> row,
                 std::span<std::uint8_t> codes) noexcept {
  std::fill(codes.begin(), codes.end(), std::uint8_t{0});
  UnpackPlane(row.subspan(spec.scale_bytes(), spec.low_bytes()), 0, 2, codes);
  if (spec.bits > 2)
    UnpackPlane(row.subspan(spec.scale_bytes() + spec.low_bytes(), spec.high_bytes()), 2,
                HighWidth(spec.bits), codes);
}

}  // namespace so4cal
