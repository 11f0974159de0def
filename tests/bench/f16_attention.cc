// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/f16_attention.h"

#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/f16_attention.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "tests/bench/f16_attention-inl.h"

#if HWY_ONCE
namespace so4cal {

HWY_EXPORT(ScoresKernel);
HWY_EXPORT(ValuesKernel);

void F16Scores(const std::uint16_t* keys, std::size_t num_rows, std::size_t d, std::span<const float> queries,
               std::span<float> scores) {
  HWY_DYNAMIC_DISPATCH(ScoresKernel)(keys, num_rows, d, queries.data(), queries.size() / d, scores.data());
}

void F16Attention(const std::uint16_t* keys, const std::uint16_t* values, std::size_t num_rows, std::size_t d,
                  std::span<const float> queries, std::span<float> out) {
  std::vector<float> scores(queries.size() / d * num_rows);
  F16Scores(keys, num_rows, d, queries, scores);
  HWY_DYNAMIC_DISPATCH(ValuesKernel)(values, num_rows, d, scores.data(), queries.size() / d, out.data());
}

}  // namespace so4cal
#endif
