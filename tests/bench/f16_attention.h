// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace so4cal {

// Attention on an fp16 cache, as an engine has it: rows [num_rows][d] of one head, d a multiple of 16, up to
// 4 queries that share one pass and hold the softmax scale. What packed rows are measured against.
void F16Scores(const std::uint16_t* keys, std::size_t num_rows, std::size_t d, std::span<const float> queries,
               std::span<float> scores);
void F16Attention(const std::uint16_t* keys, const std::uint16_t* values, std::size_t num_rows, std::size_t d,
                  std::span<const float> queries, std::span<float> out);

}  // namespace so4cal
