// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_QUANTIZE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_QUANTIZE_TILE_INL_H_
#undef SO4CAL_LIB_QUANTIZE_TILE_INL_H_
#else
#define SO4CAL_LIB_QUANTIZE_TILE_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "lib/convert-inl.h"
#include "lib/encode_tile.h"

// lib/CODEC.md, "Scale rules" and nearest rounding, with one token per lane. kVectors vectors of D side by
// side make the tile's width: more of them hide latencies. Never MulAdd: not every target has it.
HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, size_t kVectors>
HWY_INLINE size_t TileWidth(D d) {
  return kVectors * hn::Lanes(d);
}

// Levels nearest to u, ties to the higher code.
template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void NearestLevels(D d, const EncodeArgs& a, const V* u, V* level) {
  HWY_UNROLL(16)
  for (size_t v = 0; v < kVectors; ++v) level[v] = hn::Set(d, a.levels[0]);
  for (size_t k = 1; k < a.num_levels; ++k) {
    const V midpoint = hn::Set(d, a.midpoints[k - 1]), next = hn::Set(d, a.levels[k]);
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) level[v] = hn::IfThenElse(hn::Ge(u[v], midpoint), next, level[v]);
  }
}

// Through fp16; what rounds to 0 is +0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V RoundToHalf(D d, V value) {
  const hn::RebindToUnsigned<D> du;
  const V rounded = hn::BitCast(d, FloatBitsFromHalf(du, HalfFromFloatBits(du, hn::BitCast(du, value))));
  return hn::IfThenElseZero(hn::Ne(rounded, hn::Zero(d)), rounded);
}

// 1 / scale, 0 for zero blocks.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V InverseScale(D d, V scale) {
  const V zero = hn::Zero(d);
  return hn::IfThenElseZero(hn::Ne(scale, zero), hn::Div(hn::Set(d, 1.0f), scale));
}

// The last steps of a sum: ((0+4)+(2+6)) + ((1+5)+(3+7)) of eight partial sums.
template <class V>
HWY_INLINE V AddPartialSums(const V* p, size_t step) {
  const V even = hn::Add(hn::Add(p[0], p[4 * step]), hn::Add(p[2 * step], p[6 * step]));
  const V odd = hn::Add(hn::Add(p[step], p[5 * step]), hn::Add(p[3 * step], p[7 * step]));
  return hn::Add(even, odd);
}

// <z, g> and <g, g> with g the levels of z * inverse.
template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void LevelProducts(D d, const EncodeArgs& a, const float* z, const V* inverse, V* zg, V* gg) {
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  V zg_parts[8 * kVectors], gg_parts[8 * kVectors];
  for (size_t k = 0; k < 8; ++k) {
    V zg_sum[kVectors], gg_sum[kVectors];
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) zg_sum[v] = gg_sum[v] = hn::Zero(d);
    for (size_t i = k; i < a.block; i += 8) {
      V x[kVectors], u[kVectors], g[kVectors];
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v) {
        x[v] = hn::Load(d, z + i * width + v * lanes);
        u[v] = hn::Mul(x[v], inverse[v]);
      }
      NearestLevels<kVectors>(d, a, u, g);
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v) {
        zg_sum[v] = hn::Add(zg_sum[v], hn::Mul(x[v], g[v]));
        gg_sum[v] = hn::Add(gg_sum[v], hn::Mul(g[v], g[v]));
      }
    }
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) {
      zg_parts[k * kVectors + v] = zg_sum[v];
      gg_parts[k * kVectors + v] = gg_sum[v];
    }
  }
  HWY_UNROLL(16)
  for (size_t v = 0; v < kVectors; ++v) {
    zg[v] = AddPartialSums(zg_parts + v, kVectors);
    gg[v] = AddPartialSums(gg_parts + v, kVectors);
  }
}

template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void AbsmaxScales(D d, const EncodeArgs& a, const float* z, V* scale) {
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  const V top = hn::Set(d, a.top);
  HWY_UNROLL(16)
  for (size_t v = 0; v < kVectors; ++v) {
    V largest = hn::Load(d, z + v * lanes);  // the first of the largest magnitude, with its sign
    for (size_t i = 1; i < a.block; ++i) {
      const V x = hn::Load(d, z + i * width + v * lanes);
      largest = hn::IfThenElse(hn::Gt(hn::Abs(x), hn::Abs(largest)), x, largest);
    }
    scale[v] = hn::Div(a.signed_absmax ? hn::Neg(largest) : hn::Abs(largest), top);
  }
}

// Searches the rungs, then solves for the scale under the best rung's levels.
template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void SearchScales(D d, const EncodeArgs& a, const float* z, const V* absmax, V* best_scale) {
  V best_score[kVectors];
  HWY_UNROLL(16)
  for (size_t v = 0; v < kVectors; ++v) best_score[v] = best_scale[v] = hn::Zero(d);
  for (size_t r = 0; r < a.num_ratios; ++r) {
    V inverse[kVectors], zg[kVectors], gg[kVectors];
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v)
      inverse[v] = InverseScale(d, hn::Mul(hn::Set(d, a.ratios[r]), absmax[v]));
    LevelProducts<kVectors>(d, a, z, inverse, zg, gg);
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) {
      // All levels 0: 0 / 0, which is not less than anything.
      const V score = hn::Neg(hn::Div(hn::Mul(zg[v], zg[v]), gg[v]));
      const auto better = hn::Lt(score, best_score[v]);
      best_score[v] = hn::IfThenElse(better, score, best_score[v]);
      best_scale[v] = hn::IfThenElse(better, hn::Div(zg[v], gg[v]), best_scale[v]);
    }
  }
}

template <size_t kVectors, class D>
HWY_INLINE void ChooseTileScales(D d, const EncodeArgs& a, EncodeTile& tile) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  for (size_t b = 0; b < a.num_blocks; ++b) {
    const float* z = tile.z + b * a.block * width;
    V absmax[kVectors], scale[kVectors];
    AbsmaxScales<kVectors>(d, a, z, absmax);
    if (a.num_ratios != 0) SearchScales<kVectors>(d, a, z, absmax, scale);
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) {
      const V rounded = RoundToHalf(d, absmax[v]);
      const V value = a.num_ratios == 0
                          ? rounded
                          : hn::IfThenElseZero(hn::Ne(rounded, hn::Zero(d)), RoundToHalf(d, scale[v]));
      hn::Store(value, d, tile.scale + b * width + v * lanes);
    }
  }
}

template <size_t kVectors, class D>
HWY_INLINE void RoundToNearest(D d, const EncodeArgs& a, EncodeTile& tile) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  for (size_t b = 0; b < a.num_blocks; ++b) {
    V inverse[kVectors], u[kVectors], g[kVectors];
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v)
      inverse[v] = InverseScale(d, hn::Load(d, tile.scale + b * width + v * lanes));
    for (size_t i = b * a.block; i < (b + 1) * a.block; ++i) {
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v)
        u[v] = hn::Mul(hn::Load(d, tile.z + i * width + v * lanes), inverse[v]);
      NearestLevels<kVectors>(d, a, u, g);
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v) hn::Store(g[v], d, tile.level + i * width + v * lanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
