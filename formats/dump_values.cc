// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_values.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN

bool IsFinite(float value) { return (std::bit_cast<std::uint32_t>(value) & kExponent) != kExponent; }

std::size_t CountNonFinite(std::span<const float> values) {
  constexpr std::size_t kBlock = 64;  // a fixed length, so that the compiler makes vector code of the loop
  std::size_t count = 0;
  for (; values.size() >= kBlock; values = values.subspan(kBlock)) {
    unsigned found = 0;
    for (std::size_t i = 0; i < kBlock; ++i) found += IsFinite(values[i]) ? 0 : 1;
    count += found;
  }
  for (const float value : values) count += IsFinite(value) ? 0 : 1;
  return count;
}

std::size_t FirstNonFinite(std::span<const float> values) {
  return static_cast<std::size_t>(std::find_if_not(values.begin(), values.end(), IsFinite) - values.begin());
}

std::string Found(std::size_t count, const std::string& first) {
  return ": expected finite values in f32's range, found " + std::to_string(count) + " that " +
         (count == 1 ? "is" : "are") + " NaN or infinite, the first at " + first +
         "; look for an overflow where the dump was made";
}

}  // namespace

void CheckFinite(const Activations& activations, std::size_t first_token, std::size_t num_tokens,
                 const std::string& where) {
  const auto channels = static_cast<std::size_t>(activations.channels);
  std::size_t count = 0;
  std::string first;
  for (int h = 0; h < activations.num_heads; ++h) {
    const HeadView head = activations.head(h).tokens(first_token, first_token + num_tokens);
    const std::span<const float> values(head.data, num_tokens * channels);
    const std::size_t found = CountNonFinite(values);
    if (found > 0 && count == 0) {
      const std::size_t at = FirstNonFinite(values);
      first = "token " + std::to_string(at / channels) + ", head " + std::to_string(h) + ", channel " +
              std::to_string(at % channels);
    }
    count += found;
  }
  if (count > 0) throw Error(where + Found(count, first));
}

void CheckFinite(std::span<const float> values, const std::string& where) {
  const std::size_t count = CountNonFinite(values);
  if (count > 0) throw Error(where + Found(count, "index " + std::to_string(FirstNonFinite(values))));
}

std::vector<int> FindConstantHeads(const Activations& activations) {
  std::vector<int> constant;
  for (int h = 0; h < activations.num_heads; ++h) {
    const HeadView head = activations.head(h);
    std::size_t token = 1;
    while (token < head.num_tokens && std::ranges::equal(head.row(token), head.row(0))) ++token;
    if (token >= head.num_tokens) constant.push_back(h);
  }
  return constant;
}

std::string DescribeConstantHead(const Activations& activations, int head) {
  const std::span<const float> row = activations.head(head).row(0);
  return std::ranges::all_of(row, [](float x) { return x == 0; }) ? "all zero"
                                                                  : "the same vector at every token";
}

}  // namespace so4cal
