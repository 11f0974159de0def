// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/codec_spec.h"
#include "lib/quantize_block.h"
#include "tests/reference/feedback_rounding.h"
#include "tests/reference/pack_row.h"

namespace so4cal::reference {

// One row in the rotated frame to its bytes: scales, codes, planes, one value after the other.
inline void EncodeRow(const CodecSpec& spec, const std::optional<RowRounding>& rounding,
                      std::span<const float> z, std::span<std::uint8_t> row) {
  const Grid& grid = GridFor(spec.grid, spec.bits);
  const auto block = static_cast<std::size_t>(spec.block);
  std::vector<BlockScale> scales;
  for (std::size_t at = 0; at < z.size(); at += block)
    scales.push_back(ChooseScale(grid, spec.scale, z.subspan(at, block)));
  std::vector<std::uint8_t> codes(z.size());
  if (rounding.has_value()) {
    codes = rounding->Round(z, scales);
  } else {
    for (std::size_t at = 0; at < z.size(); at += block)
      ChooseCodes(grid, scales[at / block].value, z.subspan(at, block), std::span(codes).subspan(at, block));
  }
  std::vector<std::uint16_t> halves;
  for (const BlockScale& scale : scales) halves.push_back(scale.half);
  PackRow(spec, halves, codes, row);
}

}  // namespace so4cal::reference
