// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lib/grids.h"

namespace so4cal {

// How one row (one token, one KV head, one side) is stored. lib/CODEC.md, "Row format, version 1".
struct CodecSpec {
  int head_dim = 0;  // channels per row, a multiple of 8, at most 1024
  int bits = 3;      // per code: 2, 3 or 4
  int block = 32;    // channels that share one scale; divides head_dim
  GridKind grid = GridKind::kLloyd;
  ScaleRule scale = ScaleRule::kMse;

  bool operator==(const CodecSpec&) const = default;
  void Check() const;  // throws Error that names the field, its value and what is allowed

  int num_blocks() const { return head_dim / block; }
  // Planes of a row, in this order: fp16 scales, bits 0-1 of the codes, the remaining bits.
  std::size_t scale_bytes() const { return 2 * static_cast<std::size_t>(num_blocks()); }
  std::size_t low_bytes() const { return static_cast<std::size_t>(head_dim) / 4; }
  std::size_t high_bytes() const {
    return bits == 2 ? 0 : static_cast<std::size_t>(head_dim) / (bits == 3 ? 8 : 4);
  }
  std::size_t row_bytes() const { return scale_bytes() + low_bytes() + high_bytes(); }
  // Row bytes only, 8 * row_bytes / head_dim: 3.5 for 3 bits and blocks of 32. Tables are counted apart.
  double bits_per_value() const { return 8.0 * static_cast<double>(row_bytes()) / head_dim; }
};

}  // namespace so4cal
