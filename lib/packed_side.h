// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "lib/codec_spec.h"

namespace so4cal {

// A codec's row layout as the kernels read it. lib/CODEC.md, "Row format, version 1".
struct PackedSide {
  std::size_t n, block, num_blocks, row_bytes, low_at, high_at;
  int bits;
  std::array<float, 16> levels{};  // 0 for codes that have none

  explicit PackedSide(const CodecSpec& spec)
      : n(static_cast<std::size_t>(spec.head_dim)),
        block(static_cast<std::size_t>(spec.block)),
        num_blocks(static_cast<std::size_t>(spec.num_blocks())),
        row_bytes(spec.row_bytes()),
        low_at(spec.scale_bytes()),
        high_at(spec.scale_bytes() + spec.low_bytes()),
        bits(spec.bits) {
    const Grid& grid = GridFor(spec.grid, spec.bits);
    std::copy(grid.levels.begin(), grid.levels.end(), levels.begin());
  }
};

}  // namespace so4cal
