// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lib/row_codec.h"

namespace so4cal {

// softmax(scale * q K^T) V for the query heads of one KV head, straight from packed rows: the query is
// rotated once, keys and values stay in the rotated frame, one inverse rotation per output row (adding the
// value offset back: the probabilities sum to one). calib/MATH.md section 4.
// queries [n][D] raw frame; key_rows and value_rows hold the same number of rows, at least one; out [n][Dv].
// Every query sees every key.
RowStatus Attention(const HeadCodec& keys, const HeadCodec& values, std::span<const std::uint8_t> key_rows,
                    std::span<const std::uint8_t> value_rows, float softmax_scale,
                    std::span<const float> queries, std::span<float> out) noexcept;

}  // namespace so4cal
