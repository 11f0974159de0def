// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_FEEDBACK_ROUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_FEEDBACK_ROUND_INL_H_
#undef SO4CAL_LIB_FEEDBACK_ROUND_INL_H_
#else
#define SO4CAL_LIB_FEEDBACK_ROUND_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "lib/encode_tile.h"
#include "lib/quantize_tile-inl.h"

// lib/CODEC.md, "Rounding": what is rounded one channel after the other. One token per lane.
HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// For every channel i in turn: `round` sees what the earlier channels made of work_i and says by how much the
// later ones change, in units of the matrix's row i. A panel of kPanelRows channels is settled before the
// rest of the tile sees it, so that the rest is loaded and stored once per panel.
template <size_t kVectors, class D, class Round>
HWY_INLINE void RoundInTurn(D d, size_t n, const float* HWY_RESTRICT panels, float* HWY_RESTRICT work,
                            Round round) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d), width = TileWidth<D, kVectors>(d);
  for (size_t first = 0; first < n; first += kPanelRows) {
    const float* HWY_RESTRICT panel = panels + first * n;
    V change[kPanelRows * kVectors];
    HWY_UNROLL(16)
    for (size_t r = 0; r < kPanelRows; ++r) {
      const size_t i = first + r;
      V value[kVectors];
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v) value[v] = hn::Load(d, work + i * width + v * lanes);
      HWY_UNROLL(16)
      for (size_t k = 0; k < r; ++k) {
        const V factor = hn::Set(d, panel[i * kPanelRows + k]);
        HWY_UNROLL(16)
        for (size_t v = 0; v < kVectors; ++v)
          value[v] = hn::Add(value[v], hn::Mul(factor, change[k * kVectors + v]));
      }
      round(i, value, change + r * kVectors);
    }
    for (size_t j = first + kPanelRows; j < n; ++j) {
      V value[kVectors];
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v) value[v] = hn::Load(d, work + j * width + v * lanes);
      HWY_UNROLL(16)
      for (size_t k = 0; k < kPanelRows; ++k) {
        const V factor = hn::Set(d, panel[j * kPanelRows + k]);
        HWY_UNROLL(16)
        for (size_t v = 0; v < kVectors; ++v)
          value[v] = hn::Add(value[v], hn::Mul(factor, change[k * kVectors + v]));
      }
      HWY_UNROLL(16)
      for (size_t v = 0; v < kVectors; ++v) hn::Store(value[v], d, work + j * width + v * lanes);
    }
  }
}

// Scale and reciprocal of the block that a channel belongs to; channels come in ascending order.
template <size_t kVectors, class D>
struct BlockScales {
  D d;
  const EncodeArgs& a;
  const EncodeTile& tile;
  hn::Vec<D> scale[kVectors], inverse[kVectors];

  HWY_INLINE void MoveTo(size_t i) {
    if (i % a.block != 0) return;
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) {
      scale[v] = hn::Load(d, tile.scale + i / a.block * TileWidth<D, kVectors>(d) + v * hn::Lanes(d));
      inverse[v] = InverseScale(d, scale[v]);
    }
  }
};

// The nearest level; the later channels get its error, weighted by F.
template <size_t kVectors, class D>
struct RoundTarget {
  BlockScales<kVectors, D> block;
  EncodeTile& tile;

  HWY_INLINE void operator()(size_t i, const hn::Vec<D>* target, hn::Vec<D>* change) {
    const D d;
    block.MoveTo(i);
    hn::Vec<D> u[kVectors], g[kVectors];
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) u[v] = hn::Mul(target[v], block.inverse[v]);
    NearestLevels<kVectors>(d, block.a, u, g);
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) {
      hn::Store(g[v], d, tile.level + i * TileWidth<D, kVectors>(d) + v * hn::Lanes(d));
      change[v] = hn::Sub(hn::Mul(block.scale[v], g[v]), target[v]);
    }
  }
};

template <size_t kVectors, class D>
HWY_INLINE void PushErrorsOn(D d, const EncodeArgs& a, EncodeTile& tile) {
  const size_t size = a.n * TileWidth<D, kVectors>(d);
  for (size_t i = 0; i < size; i += hn::Lanes(d)) hn::Store(hn::Load(d, tile.z + i), d, tile.work + i);
  RoundInTurn<kVectors>(d, a.n, a.push, tile.work, RoundTarget<kVectors, D>{{d, a, tile, {}, {}}, tile});
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
