// SPDX-License-Identifier: Apache-2.0
// The loss of one quantization block and its derivative, on a tile of tokens: calib/MATH.md section 3.
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_CALIB_ROUNDING_LOSS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_CALIB_ROUNDING_LOSS_INL_H_
#undef SO4CAL_CALIB_ROUNDING_LOSS_INL_H_
#else
#define SO4CAL_CALIB_ROUNDING_LOSS_INL_H_
#endif

#include <cstddef>

#include "calib/token_loss_kernel.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The largest |z| of each token's block, the value itself and its channel; the lowest channel on ties.
template <class V>
struct Largest {
  V magnitude, value, channel;
};

template <class T, class D = hn::ScalableTag<T>, class V = hn::Vec<D>>
HWY_INLINE Largest<V> FindLargest(const T* z, int block) {
  const D d;
  Largest<V> best{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (int c = 0; c < block; ++c) {
    const auto v = hn::LoadU(d, z + static_cast<std::size_t>(c) * kTileTokens);
    const auto magnitude = hn::Abs(v);
    const auto larger = hn::Gt(magnitude, best.magnitude);
    best.magnitude = hn::IfThenElse(larger, magnitude, best.magnitude);
    best.value = hn::IfThenElse(larger, v, best.value);
    best.channel = hn::IfThenElse(larger, hn::Set(d, static_cast<T>(c)), best.channel);
  }
  return best;
}

// m s^2 / 12 with s = max|z| / top; its derivative acts on the largest coordinate only.
template <class T, class V>
HWY_INLINE V ExpectedLoss(const TokenLossData<T>& data, T weight, const T* z, T* g) {
  const hn::ScalableTag<T> d;
  const auto best = FindLargest(z, data.block);
  const T factor = static_cast<T>(data.block) / (T(12) * data.top * data.top);
  const auto slope = hn::Mul(hn::Set(d, T(2) * factor * weight), best.value);
  for (int c = 0; c < data.block; ++c)
    hn::StoreU(hn::IfThenElseZero(hn::Eq(best.channel, hn::Set(d, static_cast<T>(c))), slope), d,
               g + static_cast<std::size_t>(c) * kTileTokens);
  return hn::Mul(hn::Set(d, factor), hn::Mul(best.value, best.value));
}

// The level nearest to v, in units of the scale; a tie takes the higher one.
template <class T, class V>
HWY_INLINE V NearestLevel(const TokenLossData<T>& data, V v) {
  const hn::ScalableTag<T> d;
  auto level = hn::Set(d, data.levels[0]);
  for (std::size_t j = 0; j < data.midpoints.size(); ++j)
    level = hn::IfThenElse(hn::Ge(v, hn::Set(d, data.midpoints[j])), hn::Set(d, data.levels[j + 1]), level);
  return level;
}

template <class T, class V>
HWY_INLINE V Reciprocal(V scale) {  // 0 for an all-zero block
  const hn::ScalableTag<T> d;
  return hn::IfThenZeroElse(hn::Eq(scale, hn::Zero(d)), hn::Div(hn::Set(d, T(1)), scale));
}

template <class V>
struct Sums {
  V zg, gg;  // <z, levels>, <levels, levels>
};

template <class T, class V>
HWY_INLINE Sums<V> LevelSums(const TokenLossData<T>& data, const T* z, V inverse_scale) {
  const hn::ScalableTag<T> d;
  Sums<V> sums{hn::Zero(d), hn::Zero(d)};
  for (int c = 0; c < data.block; ++c) {
    const auto v = hn::LoadU(d, z + static_cast<std::size_t>(c) * kTileTokens);
    const auto level = NearestLevel(data, hn::Mul(v, inverse_scale));
    sums.zg = hn::MulAdd(v, level, sums.zg);
    sums.gg = hn::MulAdd(level, level, sums.gg);
  }
  return sums;
}

// The scale that the rule picks, unrounded, and the inverse scale that the codes were chosen with.
template <class V>
struct Scale {
  V scale, inverse_for_codes;
};

template <class T, class V>
HWY_INLINE Scale<V> PickScale(const TokenLossData<T>& data, const T* z, V absmax_scale) {
  const hn::ScalableTag<T> d;
  if (data.scale == ScaleRule::kAbsmax) return {absmax_scale, Reciprocal<T>(absmax_scale)};
  auto best_score = hn::Set(d, T(-1));
  Scale<V> best{hn::Zero(d), hn::Zero(d)};
  for (const T ratio : data.mse_ratios) {
    const auto inverse = Reciprocal<T>(hn::Mul(absmax_scale, hn::Set(d, ratio)));
    const auto sums = LevelSums(data, z, inverse);
    const auto fitted = hn::Mul(sums.zg, Reciprocal<T>(sums.gg));
    const auto score = hn::Mul(sums.zg, fitted);  // energy that the levels explain
    const auto better = hn::Gt(score, best_score);
    best_score = hn::IfThenElse(better, score, best_score);
    best.scale = hn::IfThenElse(better, fitted, best.scale);
    best.inverse_for_codes = hn::IfThenElse(better, inverse, best.inverse_for_codes);
  }
  return best;
}

// |z - s g|^2 and its derivative. `mse`: s minimizes it for its codes, so the scale's term vanishes.
template <class T, class V>
HWY_INLINE V ExactLoss(const TokenLossData<T>& data, T weight, const T* z, T* g) {
  const hn::ScalableTag<T> d;
  const auto largest = FindLargest(z, data.block);
  const bool signed_scale = data.grid == GridKind::kFull;
  // d scale / d z_k: the scale follows the largest coordinate, with its sign turned for `full`.
  const auto turn =
      signed_scale ? hn::Set(d, T(-1) / data.top) : hn::CopySign(hn::Set(d, T(1) / data.top), largest.value);
  const auto pick = PickScale(data, z, hn::Mul(turn, largest.value));
  auto loss = hn::Zero(d), error_level = hn::Zero(d);
  for (int c = 0; c < data.block; ++c) {
    const std::size_t at = static_cast<std::size_t>(c) * kTileTokens;
    const auto v = hn::LoadU(d, z + at);
    const auto level = NearestLevel(data, hn::Mul(v, pick.inverse_for_codes));
    const auto error = hn::NegMulAdd(pick.scale, level, v);
    loss = hn::MulAdd(error, error, loss);
    error_level = hn::MulAdd(error, level, error_level);
    hn::StoreU(hn::Mul(hn::Set(d, T(2) * weight), error), d, g + at);
  }
  if (data.scale == ScaleRule::kMse) return loss;
  const auto through_scale = hn::Mul(hn::Mul(hn::Set(d, T(-2) * weight), error_level), turn);
  for (int c = 0; c < data.block; ++c) {
    const std::size_t at = static_cast<std::size_t>(c) * kTileTokens;
    const auto here = hn::Eq(largest.channel, hn::Set(d, static_cast<T>(c)));
    hn::StoreU(hn::Add(hn::LoadU(d, g + at), hn::IfThenElseZero(here, through_scale)), d, g + at);
  }
  return loss;
}

// Loss of every block of the tile into block_sums (unweighted), derivative (weighted) into g.
template <class T>
HWY_INLINE void RoundingLoss(const TokenLossData<T>& data, const T* z, T* g, double* block_sums) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  for (int b = 0; b < data.channels / data.block; ++b) {
    const T weight = data.block_weights.empty() ? T(1) : data.block_weights[static_cast<std::size_t>(b)];
    const std::size_t first = static_cast<std::size_t>(b * data.block) * kTileTokens;
    auto sum = hn::Zero(d);
    for (std::size_t t = 0; t < kTileTokens; t += hn::Lanes(d)) {
      const V loss = data.kind == LossKind::kExpected
                         ? ExpectedLoss<T, V>(data, weight, z + first + t, g + first + t)
                         : ExactLoss<T, V>(data, weight, z + first + t, g + first + t);
      sum = hn::Add(sum, loss);
    }
    block_sums[b] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
