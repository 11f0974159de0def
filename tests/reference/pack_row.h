// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/codec_spec.h"

namespace so4cal::reference {

// `width` bits of each code, from bit `shift` on, 8 / width codes to a byte, the first in the lowest bits.
inline void PackPlane(std::span<const std::uint8_t> codes, int shift, int width,
                      std::span<std::uint8_t> plane) {
  const int per_byte = 8 / width, mask = (1 << width) - 1;
  std::fill(plane.begin(), plane.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto at = i / static_cast<std::size_t>(per_byte);
    const int position = width * static_cast<int>(i % static_cast<std::size_t>(per_byte));
    plane[at] = static_cast<std::uint8_t>(plane[at] | (((codes[i] >> shift) & mask) << position));
  }
}

// The planes of one row, lib/CODEC.md, "Row format, version 1". codes: head_dim values below 2^bits; scales:
// one fp16 pattern per block; row: spec.row_bytes() bytes.
inline void PackRow(const CodecSpec& spec, std::span<const std::uint16_t> scales,
                    std::span<const std::uint8_t> codes, std::span<std::uint8_t> row) {
  for (std::size_t b = 0; b < scales.size(); ++b) {
    row[2 * b] = static_cast<std::uint8_t>(scales[b] & 0xff);
    row[2 * b + 1] = static_cast<std::uint8_t>(scales[b] >> 8);
  }
  PackPlane(codes, 0, 2, row.subspan(spec.scale_bytes(), spec.low_bytes()));
  if (spec.bits > 2)
    PackPlane(codes, 2, spec.bits - 2, row.subspan(spec.scale_bytes() + spec.low_bytes(), spec.high_bytes()));
}

}  // namespace so4cal::reference
