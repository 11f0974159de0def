// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_FEEDBACK_REFINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_FEEDBACK_REFINE_INL_H_
#undef SO4CAL_LIB_FEEDBACK_REFINE_INL_H_
#else
#define SO4CAL_LIB_FEEDBACK_REFINE_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "lib/encode_tile.h"
#include "lib/feedback_round-inl.h"
#include "lib/quantize_tile-inl.h"

// lib/CODEC.md, "Rounding": rounds of refinement. One token per lane.
HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The scales' normal equations of every token of a tile, token t of entry e at e * width + t; the lower
// triangle row by row.
struct EquationTile {
  alignas(64) double a[kEquationDoubles];
  alignas(64) double b[kEncodeTileFloats / 4];     // at most 64 blocks
  alignas(64) double keep[kEncodeTileFloats / 4];  // 1, or 0 for a block that stays out
};

HWY_INLINE size_t TriangleAt(size_t i, size_t j) { return i * (i + 1) / 2 + j; }

// Sums of lib/CODEC.md of a panel's rows times x, channels first to first + count: out[r * kVectors + v].
template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void PanelDots(D d, const float* HWY_RESTRICT panel, const float* HWY_RESTRICT x, size_t first,
                          size_t count, V* out) {
  constexpr size_t kSums = kPanelRows * kVectors;
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  V parts[8 * kSums];
  for (size_t k = 0; k < 8; ++k) {
    V sum[kSums];
    HWY_UNROLL(16)
    for (size_t s = 0; s < kSums; ++s) sum[s] = hn::Zero(d);
    for (size_t j = first + k; j < first + count; j += 8) {
      V value[kVectors];
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v) value[v] = hn::Load(d, x + j * width + v * lanes);
      HWY_UNROLL(16)
      for (size_t r = 0; r < kPanelRows; ++r) {
        const V factor = hn::Set(d, panel[j * kPanelRows + r]);
        HWY_UNROLL(16)
        for (size_t v = 0; v < kVectors; ++v)
          sum[r * kVectors + v] = hn::Add(sum[r * kVectors + v], hn::Mul(factor, value[v]));
      }
    }
    HWY_UNROLL(16)
    for (size_t s = 0; s < kSums; ++s) parts[k * kSums + s] = sum[s];
  }
  HWY_UNROLL(16)
  for (size_t s = 0; s < kSums; ++s) out[s] = AddPartialSums(parts + s, kSums);
}

// out = Mz x.
template <size_t kVectors, class D>
HWY_INLINE void MetricTimes(D d, const EncodeArgs& a, const float* x, float* out) {
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  hn::Vec<D> dots[kPanelRows * kVectors];
  for (size_t first = 0; first < a.n; first += kPanelRows) {
    PanelDots<kVectors>(d, a.metric + first * a.n, x, 0, a.n, dots);
    HWY_UNROLL(16)
    for (size_t s = 0; s < kPanelRows * kVectors; ++s)
      hn::Store(dots[s], d, out + (first + s / kVectors) * width + s % kVectors * lanes);
  }
}

// sum += x * y in double, for all tokens of the tile.
template <class D>
HWY_INLINE void AddProducts(D, const float* x, const float* y, size_t width, double* sum) {
  const hn::CappedTag<double, 4> dd;
  const hn::Rebind<float, decltype(dd)> df;
  for (size_t t = 0; t < width; t += hn::Lanes(dd)) {
    const auto product =
        hn::Mul(hn::PromoteTo(dd, hn::Load(df, x + t)), hn::PromoteTo(dd, hn::Load(df, y + t)));
    hn::Store(hn::Add(hn::Load(dd, sum + t), product), dd, sum + t);
  }
}

template <size_t kVectors, class D>
HWY_INLINE void MakeEquations(D d, const EncodeArgs& a, const EncodeTile& tile, EquationTile& eq) {
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  const size_t last = a.num_blocks - 1;
  for (size_t e = 0; e < (TriangleAt(last, last) + 1) * width; ++e) eq.a[e] = 0;
  for (size_t e = 0; e < a.num_blocks * width; ++e) eq.b[e] = 0;
  hn::Vec<D> dots[kPanelRows * kVectors];
  HWY_ALIGN float dot[kVectors * hn::MaxLanes(D())];
  for (size_t first = 0; first < a.n; first += kPanelRows) {
    const size_t last_block = (first + kPanelRows - 1) / a.block;
    for (size_t c = 0; c <= last_block; ++c) {
      PanelDots<kVectors>(d, a.metric + first * a.n, tile.level, c * a.block, a.block, dots);
      HWY_UNROLL(16)
      for (size_t r = 0; r < kPanelRows; ++r) {
        const size_t i = first + r, b = i / a.block;
        if (c > b) continue;
        HWY_UNROLL(16)
        for (size_t v = 0; v < kVectors; ++v) hn::Store(dots[r * kVectors + v], d, dot + v * lanes);
        AddProducts(d, tile.level + i * width, dot, width, eq.a + TriangleAt(b, c) * width);
      }
    }
    for (size_t i = first; i < first + kPanelRows; ++i)
      AddProducts(d, tile.level + i * width, tile.metric_z + i * width, width, eq.b + i / a.block * width);
  }
}

// Blocks of scale 0 and blocks whose levels cost nothing keep a row of the identity.
template <class D>
HWY_INLINE void ExcludeBlocks(D d, size_t num_blocks, size_t width, const float* scale, EquationTile& eq) {
  (void)d;
  for (size_t b = 0; b < num_blocks; ++b)
    for (size_t t = 0; t < width; ++t)
      eq.keep[b * width + t] =
          scale[b * width + t] != 0 && eq.a[TriangleAt(b, b) * width + t] > 0 ? 1.0 : 0.0;
  for (size_t b = 0; b < num_blocks; ++b)
    for (size_t t = 0; t < width; ++t) {
      const double keep = eq.keep[b * width + t];
      for (size_t c = 0; c < b; ++c) eq.a[TriangleAt(b, c) * width + t] *= keep * eq.keep[c * width + t];
      if (keep == 0) {
        eq.a[TriangleAt(b, b) * width + t] = 1;
        eq.b[b * width + t] = 0;
      }
    }
}

// Cholesky in place for the tokens of one vector; b becomes the solution. False in the lanes whose matrix is
// not safely positive definite.
template <class DD>
HWY_INLINE hn::Mask<DD> SolveEquations(DD dd, size_t size, size_t width, double* HWY_RESTRICT a,
                                       double* HWY_RESTRICT b) {
  const auto at = [=](size_t i, size_t j) { return a + TriangleAt(i, j) * width; };
  auto solved = hn::Eq(hn::Zero(dd), hn::Zero(dd));
  for (size_t j = 0; j < size; ++j) {
    const auto diagonal = hn::Load(dd, at(j, j));
    auto pivot = diagonal;
    for (size_t k = 0; k < j; ++k) {
      const auto l = hn::Load(dd, at(j, k));
      pivot = hn::Sub(pivot, hn::Mul(l, l));
    }
    solved = hn::And(solved, hn::Gt(pivot, hn::Mul(hn::Set(dd, 1e-9), diagonal)));
    const auto root = hn::Sqrt(pivot);
    hn::Store(root, dd, at(j, j));
    for (size_t i = j + 1; i < size; ++i) {
      auto sum = hn::Load(dd, at(i, j));
      for (size_t k = 0; k < j; ++k)
        sum = hn::Sub(sum, hn::Mul(hn::Load(dd, at(i, k)), hn::Load(dd, at(j, k))));
      hn::Store(hn::Div(sum, root), dd, at(i, j));
    }
  }
  for (size_t i = 0; i < size; ++i) {
    auto x = hn::Load(dd, b + i * width);
    for (size_t k = 0; k < i; ++k)
      x = hn::Sub(x, hn::Mul(hn::Load(dd, at(i, k)), hn::Load(dd, b + k * width)));
    hn::Store(hn::Div(x, hn::Load(dd, at(i, i))), dd, b + i * width);
  }
  for (size_t i = size; i-- > 0;) {
    auto x = hn::Load(dd, b + i * width);
    for (size_t k = i + 1; k < size; ++k)
      x = hn::Sub(x, hn::Mul(hn::Load(dd, at(k, i)), hn::Load(dd, b + k * width)));
    hn::Store(hn::Div(x, hn::Load(dd, at(i, i))), dd, b + i * width);
  }
  return solved;
}

// A scale that vanishes, overflows or turns its sign would be another block, not a better one.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V AcceptedScale(DF df, V refitted, V old) {
  const V rounded = RoundToHalf(df, refitted);
  const auto fits = hn::Le(hn::Abs(refitted), hn::Set(df, 65504.0f));
  const auto same_sign = hn::Gt(hn::Mul(rounded, old), hn::Zero(df));
  return hn::IfThenElse(hn::And(fits, same_sign), rounded, old);
}

// Minimizes (sum_b s_b g_b - z)^T Mz (sum_b s_b g_b - z) over the scales; g_b: the levels of block b.
template <size_t kVectors, class D>
HWY_INLINE void RefitScales(D d, const EncodeArgs& a, EncodeTile& tile, EquationTile& eq) {
  const size_t width = TileWidth<D, kVectors>(d);
  const hn::CappedTag<double, 4> dd;
  const hn::Rebind<float, decltype(dd)> df;
  MakeEquations<kVectors>(d, a, tile, eq);
  ExcludeBlocks(d, a.num_blocks, width, tile.scale, eq);
  for (size_t t = 0; t < width; t += hn::Lanes(dd)) {
    const auto solved = SolveEquations(dd, a.num_blocks, width, eq.a + t, eq.b + t);
    for (size_t b = 0; b < a.num_blocks; ++b) {
      // No scale is 0 of those that change, so 0 stands for "as it was".
      const auto solution = hn::IfThenElseZero(solved, hn::Load(dd, eq.b + b * width + t));
      float* scale = tile.scale + b * width + t;
      hn::Store(AcceptedScale(df, hn::DemoteTo(df, solution), hn::Load(df, scale)), df, scale);
    }
  }
}

// The level that is best given all others; the later channels' slopes Mz e move by what changes.
template <size_t kVectors, class D>
struct RoundSlope {
  BlockScales<kVectors, D> block;
  EncodeTile& tile;

  HWY_INLINE void operator()(size_t i, const hn::Vec<D>* slope, hn::Vec<D>* change) {
    const D d;
    using V = hn::Vec<D>;
    block.MoveTo(i);
    const size_t n = block.a.n, first = i / kPanelRows * kPanelRows;
    const V diagonal = hn::Set(d, block.a.metric[first * n + i * kPanelRows + i - first]);
    V u[kVectors], g[kVectors], now[kVectors];
    float* level = tile.level + i * TileWidth<D, kVectors>(d);
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) {
      now[v] = hn::Mul(block.scale[v], hn::Load(d, level + v * hn::Lanes(d)));
      u[v] = hn::Mul(hn::Sub(now[v], hn::Div(slope[v], diagonal)), block.inverse[v]);
    }
    NearestLevels<kVectors>(d, block.a, u, g);
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) {
      change[v] = hn::Sub(hn::Mul(block.scale[v], g[v]), now[v]);
      hn::Store(g[v], d, level + v * hn::Lanes(d));
    }
  }
};

template <size_t kVectors, class D>
HWY_INLINE void Sweep(D d, const EncodeArgs& a, EncodeTile& tile) {
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  for (size_t i = 0; i < a.n; ++i)
    for (size_t t = 0; t < width; t += lanes) {
      const size_t at = i * width + t;
      const auto scale = hn::Load(d, tile.scale + i / a.block * width + t);
      const auto z_hat = hn::Mul(scale, hn::Load(d, tile.level + at));
      hn::Store(hn::Sub(z_hat, hn::Load(d, tile.z + at)), d, tile.error + at);
    }
  MetricTimes<kVectors>(d, a, tile.error, tile.work);
  RoundInTurn<kVectors>(d, a.n, a.metric, tile.work, RoundSlope<kVectors, D>{{d, a, tile, {}, {}}, tile});
}

template <size_t kVectors, class D>
HWY_NOINLINE void RefineTile(D d, const EncodeArgs& a, EncodeTile& tile) {
  EquationTile eq;
  MetricTimes<kVectors>(d, a, tile.z, tile.metric_z);
  for (int round = 0; round < a.rounds; ++round) {
    RefitScales<kVectors>(d, a, tile, eq);
    Sweep<kVectors>(d, a, tile);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
