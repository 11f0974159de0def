// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "lib/codec_spec.h"

namespace so4cal {

// Queries of one KV head that share a pass over its rows: a row's levels are looked up once for all of them.
inline constexpr std::size_t kMaxPassQueries = 4;

// What a softmax over rows so far comes to, for each query: weights are relative to the maximum.
struct SoftmaxState {
  float maximum[kMaxPassQueries], weight_sum[kMaxPassQueries] = {};
  SoftmaxState() { std::fill_n(maximum, kMaxPassQueries, -std::numeric_limits<float>::infinity()); }
};

// sums[j] = sum_t e^(queries[j] . key_t - maximum[j]) value_t, over these rows and those of earlier calls
// with the same state and sums (zeros at first); divided by weight_sum[j] it is attention's output.
// softmax_scale is in the queries already. All in the rotated frames. queries: 1 to kMaxPassQueries rows of
// the keys' head_dim; sums: as many of the values' head_dim. Both spans of rows hold the same number. f32,
// with sums over 64 rows.
void AttendRows(const CodecSpec& key_spec, std::span<const std::uint8_t> key_rows,
                const CodecSpec& value_spec, std::span<const std::uint8_t> value_rows,
                std::span<const float> queries, SoftmaxState& state, std::span<float> sums) noexcept;

// scores[j][t] = queries[j] . key_t, [num_queries][num_rows]: the first half alone.
void ScoreRows(const CodecSpec& key_spec, std::span<const std::uint8_t> key_rows,
               std::span<const float> queries, std::span<float> scores) noexcept;

}  // namespace so4cal
