// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_ATTEND_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_ATTEND_ROWS_INL_H_
#undef SO4CAL_LIB_ATTEND_ROWS_INL_H_
#else
#define SO4CAL_LIB_ATTEND_ROWS_INL_H_
#endif

#include <array>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "lib/attend_rows.h"
#include "lib/decode_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// kPassRows: per step of the online softmax.

using PassWeights = float[kMaxPassQueries][kPassRows];

// x[i] <- the sum of x[i * width] to x[i * width + width - 1]; width is a power of two, `count` sums, in
// place.
HWY_INLINE void SumGroups(float* HWY_RESTRICT x, size_t count, size_t width) {
  const hn::CappedTag<float, 16> d;
  for (; width > 1; width /= 2) {
    const size_t half = count * width / 2;
    size_t i = 0;
    for (; i + hn::Lanes(d) <= half; i += hn::Lanes(d)) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, x + 2 * i, even, odd);
      hn::StoreU(hn::Add(even, odd), d, x + i);
    }
    for (; i < half; ++i) x[i] = x[2 * i] + x[2 * i + 1];
  }
}

// scores[j][t] for kQueries queries (1 or 4) and num_rows <= kPassRows rows.
template <size_t kQueries, class D, class Levels>
HWY_INLINE void ScorePass(D d, const Levels& levels, const PackedSide& keys, const std::uint8_t* rows,
                          size_t num_rows, const float* HWY_RESTRICT queries, PassWeights& scores) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  const size_t n = keys.n;
  ScaleTable scales;
  LoadScales(keys, rows, num_rows, scales);
  alignas(64) float sums[kQueries][kPassRows * kLanes];
  for (size_t t = 0; t < num_rows; ++t) {
    const std::uint8_t* row = rows + t * keys.row_bytes;
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (size_t b = 0; b < keys.num_blocks; ++b) {
      const auto scale = hn::Set(d, scales[t * keys.num_blocks + b]);
      for (size_t c = b * keys.block; c < (b + 1) * keys.block; c += kLanes) {
        const auto key = hn::Mul(scale, levels.At(d, row, c));
        s0 = hn::MulAdd(key, hn::LoadU(d, queries + c), s0);
        if constexpr (kQueries == 4) {
          s1 = hn::MulAdd(key, hn::LoadU(d, queries + n + c), s1);
          s2 = hn::MulAdd(key, hn::LoadU(d, queries + 2 * n + c), s2);
          s3 = hn::MulAdd(key, hn::LoadU(d, queries + 3 * n + c), s3);
        }
      }
    }
    hn::Store(s0, d, sums[0] + t * kLanes);
    if constexpr (kQueries == 4) {
      hn::Store(s1, d, sums[1] + t * kLanes);
      hn::Store(s2, d, sums[2] + t * kLanes);
      hn::Store(s3, d, sums[3] + t * kLanes);
    }
  }
  for (size_t j = 0; j < kQueries; ++j) {
    SumGroups(sums[j], num_rows, kLanes);
    std::copy_n(sums[j], num_rows, scores[j]);
  }
}

// Scores -> weights relative to the new maximum; returns by what sums so far shrink. Lanes beyond num_rows
// get 0.
HWY_INLINE float SoftmaxStep(float* HWY_RESTRICT scores, size_t num_rows, float& maximum, float& weight_sum) {
  const hn::CappedTag<float, 16> d;
  std::fill(scores + num_rows, scores + kPassRows, -std::numeric_limits<float>::infinity());
  const auto finite =
      hn::Set(d, std::numeric_limits<float>::max());  // beyond it, all infinite scores are alike
  auto largest = hn::Set(d, maximum);
  for (size_t t = 0; t < kPassRows; t += hn::Lanes(d)) {
    const auto score = hn::Min(hn::LoadU(d, scores + t), finite);
    hn::StoreU(score, d, scores + t);
    largest = hn::Max(largest, score);
  }
  const float new_maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float shrink = std::exp(maximum - new_maximum);  // 0 at the first step
  maximum = new_maximum;
  // e^-80 is nothing beside the maximum's 1; the polynomial of Exp is for numbers above -103.
  const auto floor = hn::Set(d, -80.0f), top = hn::Set(d, maximum);
  auto sum = hn::Zero(d);
  for (size_t t = 0; t < kPassRows; t += hn::Lanes(d)) {
    const auto x = hn::Sub(hn::LoadU(d, scores + t), top);
    const auto weight = hn::IfThenElseZero(hn::Ge(x, floor), hn::Exp(d, hn::Max(x, floor)));
    hn::StoreU(weight, d, scores + t);
    sum = hn::Add(sum, weight);
  }
  weight_sum = weight_sum * shrink + hn::GetLane(hn::SumOfLanes(d, sum));
  return shrink;
}

// sums[j] <- shrink[j] sums[j] + sum_t weights[j][t] value_t
template <size_t kQueries, class D, class Levels>
HWY_INLINE void ValuePass(D d, const Levels& levels, const PackedSide& values, const std::uint8_t* rows,
                          size_t num_rows, const PassWeights& weights, const float* HWY_RESTRICT shrink,
                          float* HWY_RESTRICT sums) {
  const size_t n = values.n;
  ScaleTable scales;
  LoadScales(values, rows, num_rows, scales);
  float scaled[kPassRows][kQueries];
  for (size_t b = 0; b < values.num_blocks; ++b) {
    for (size_t t = 0; t < num_rows; ++t) {
      const float scale = scales[t * values.num_blocks + b];
      for (size_t j = 0; j < kQueries; ++j) scaled[t][j] = weights[j][t] * scale;
    }
    for (size_t c = b * values.block; c < (b + 1) * values.block; c += hn::Lanes(d)) {
      const auto so_far = [&](size_t j) HWY_ATTR {
        return hn::Mul(hn::Set(d, shrink[j]), hn::LoadU(d, sums + j * n + c));
      };
      auto s0 = so_far(0), s1 = s0, s2 = s0, s3 = s0;
      if constexpr (kQueries == 4) s1 = so_far(1), s2 = so_far(2), s3 = so_far(3);
      for (size_t t = 0; t < num_rows; ++t) {
        const auto level = levels.At(d, rows + t * values.row_bytes, c);
        s0 = hn::MulAdd(level, hn::Set(d, scaled[t][0]), s0);
        if constexpr (kQueries == 4) {
          s1 = hn::MulAdd(level, hn::Set(d, scaled[t][1]), s1);
          s2 = hn::MulAdd(level, hn::Set(d, scaled[t][2]), s2);
          s3 = hn::MulAdd(level, hn::Set(d, scaled[t][3]), s3);
        }
      }
      hn::StoreU(s0, d, sums + c);
      if constexpr (kQueries == 4) {
        hn::StoreU(s1, d, sums + n + c);
        hn::StoreU(s2, d, sums + 2 * n + c);
        hn::StoreU(s3, d, sums + 3 * n + c);
      }
    }
  }
}

template <size_t kQueries>
HWY_INLINE void AttendQueries(const PackedSide& keys, const std::uint8_t* key_rows, const PackedSide& values,
                              const std::uint8_t* value_rows, size_t num_rows, const float* queries,
                              SoftmaxState& state, float* sums) {
  alignas(64) PassWeights weights;
  float shrink[kQueries];
  const size_t step = std::min(PassRows(keys), PassRows(values));
  for (size_t first = 0; first < num_rows; first += step) {
    const size_t count = std::min(step, num_rows - first);
    WithLevels(keys, [&](auto d, const auto& levels) HWY_ATTR {
      ScorePass<kQueries>(d, levels, keys, key_rows + first * keys.row_bytes, count, queries, weights);
    });
    for (size_t j = 0; j < kQueries; ++j)
      shrink[j] = SoftmaxStep(weights[j], count, state.maximum[j], state.weight_sum[j]);
    WithLevels(values, [&](auto d, const auto& levels) HWY_ATTR {
      ValuePass<kQueries>(d, levels, values, value_rows + first * values.row_bytes, count, weights, shrink,
                          sums);
    });
  }
}

HWY_INLINE void AttendRowsKernel(const PackedSide& keys, const std::uint8_t* key_rows,
                                 const PackedSide& values, const std::uint8_t* value_rows, size_t num_rows,
                                 const float* queries, size_t num_queries, SoftmaxState& state, float* sums) {
  num_queries == 1 ? AttendQueries<1>(keys, key_rows, values, value_rows, num_rows, queries, state, sums)
                   : AttendQueries<4>(keys, key_rows, values, value_rows, num_rows, queries, state, sums);
}

template <size_t kQueries>
HWY_INLINE void ScoreQueries(const PackedSide& keys, const std::uint8_t* rows, size_t num_rows,
                             const float* queries, size_t num_queries, float* scores) {
  alignas(64) PassWeights pass;
  const size_t step = PassRows(keys);
  WithLevels(keys, [&](auto d, const auto& levels) HWY_ATTR {
    for (size_t first = 0; first < num_rows; first += step) {
      const size_t count = std::min(step, num_rows - first);
      ScorePass<kQueries>(d, levels, keys, rows + first * keys.row_bytes, count, queries, pass);
      for (size_t j = 0; j < num_queries; ++j) std::copy_n(pass[j], count, scores + j * num_rows + first);
    }
  });
}

HWY_INLINE void ScoreRowsKernel(const PackedSide& keys, const std::uint8_t* rows, size_t num_rows,
                                const float* queries, size_t num_queries, float* scores) {
  num_queries == 1 ? ScoreQueries<1>(keys, rows, num_rows, queries, num_queries, scores)
                   : ScoreQueries<4>(keys, rows, num_rows, queries, num_queries, scores);
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
