// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace so4cal {

enum class Side { kKey = 0, kValue = 1 };
inline constexpr Side kSides[] = {Side::kKey, Side::kValue};
// "k" and "v": the names in files and reports.
constexpr const char* SideName(Side side) { return side == Side::kKey ? "k" : "v"; }

// Some tokens of one head: row t holds `channels` floats at data + t * token_stride. Non-owning.
struct HeadView {
  const float* data = nullptr;
  std::size_t num_tokens = 0;
  std::size_t token_stride = 0;  // in floats
  int channels = 0;

  std::span<const float> row(std::size_t token) const {
    return {data + token * token_stride, static_cast<std::size_t>(channels)};
  }
  HeadView tokens(std::size_t begin, std::size_t end) const {
    return {data + begin * token_stride, end - begin, token_stride, channels};
  }
};

// All heads of one side (or the queries) of one layer, [head][token][channel], head slowest.
struct Activations {
  int num_heads = 0;
  std::size_t num_tokens = 0;
  int channels = 0;
  std::vector<float> values;

  HeadView head(int h) const {
    const auto c = static_cast<std::size_t>(channels);
    return {values.data() + static_cast<std::size_t>(h) * num_tokens * c, num_tokens, c, channels};
  }
};

}  // namespace so4cal
