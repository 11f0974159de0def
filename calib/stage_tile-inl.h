// SPDX-License-Identifier: Apache-2.0
// Stages of 4 x 4 blocks on a tile of tokens: forward, backward, and the gradient of the matrices.
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_CALIB_STAGE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_CALIB_STAGE_TILE_INL_H_
#undef SO4CAL_CALIB_STAGE_TILE_INL_H_
#else
#define SO4CAL_CALIB_STAGE_TILE_INL_H_
#endif

#include <cstddef>

#include "calib/token_loss_kernel.h"
#include "hwy/highway.h"
#include "lib/transform.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y = R x (or R^T x) for the four channels of one block. x and y may be the same tile.
template <bool kTransposed, class T>
HWY_INLINE void ApplyBlock(const T* HWY_RESTRICT m, std::size_t channel_step, const T* x, T* y) {
  const hn::ScalableTag<T> d;
  const auto coefficient = [&](std::size_t r, std::size_t c) {
    return hn::Set(d, kTransposed ? m[4 * c + r] : m[4 * r + c]);
  };
  for (std::size_t t = 0; t < kTileTokens; t += hn::Lanes(d)) {
    const auto x0 = hn::LoadU(d, x + t);
    const auto x1 = hn::LoadU(d, x + channel_step + t);
    const auto x2 = hn::LoadU(d, x + 2 * channel_step + t);
    const auto x3 = hn::LoadU(d, x + 3 * channel_step + t);
    for (std::size_t r = 0; r < 4; ++r) {
      auto sum = hn::Mul(coefficient(r, 0), x0);
      sum = hn::MulAdd(coefficient(r, 1), x1, sum);
      sum = hn::MulAdd(coefficient(r, 2), x2, sum);
      sum = hn::MulAdd(coefficient(r, 3), x3, sum);
      hn::StoreU(sum, d, y + r * channel_step + t);
    }
  }
}

template <bool kTransposed, class T>
HWY_INLINE void ApplyStage(int channels, int stride, const T* matrices, const T* x, T* y) {
  const std::size_t step = static_cast<std::size_t>(stride) * kTileTokens;
  for (int i = 0; i < channels / 4; ++i) {
    const std::size_t first = static_cast<std::size_t>(FirstChannel(i, stride)) * kTileTokens;
    ApplyBlock<kTransposed>(matrices + 16 * i, step, x + first, y + first);
  }
}

// sums[4r + c] += g_r x_c over the tokens of the tile, kept as vectors: 16 * Lanes numbers per block.
template <class T>
HWY_INLINE void AccumulateBlock(std::size_t step, const T* HWY_RESTRICT g, const T* HWY_RESTRICT x,
                                T* HWY_RESTRICT sums) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t r = 0; r < 4; r += 2) {  // two rows at a time: eight sums fit the registers
    T* const s = sums + 4 * r * lanes;
    auto a0 = hn::LoadU(d, s), a1 = hn::LoadU(d, s + lanes);
    auto a2 = hn::LoadU(d, s + 2 * lanes), a3 = hn::LoadU(d, s + 3 * lanes);
    auto b0 = hn::LoadU(d, s + 4 * lanes), b1 = hn::LoadU(d, s + 5 * lanes);
    auto b2 = hn::LoadU(d, s + 6 * lanes), b3 = hn::LoadU(d, s + 7 * lanes);
    for (std::size_t t = 0; t < kTileTokens; t += lanes) {
      const auto x0 = hn::LoadU(d, x + t), x1 = hn::LoadU(d, x + step + t);
      const auto x2 = hn::LoadU(d, x + 2 * step + t), x3 = hn::LoadU(d, x + 3 * step + t);
      const auto ga = hn::LoadU(d, g + r * step + t), gb = hn::LoadU(d, g + (r + 1) * step + t);
      a0 = hn::MulAdd(ga, x0, a0);
      a1 = hn::MulAdd(ga, x1, a1);
      a2 = hn::MulAdd(ga, x2, a2);
      a3 = hn::MulAdd(ga, x3, a3);
      b0 = hn::MulAdd(gb, x0, b0);
      b1 = hn::MulAdd(gb, x1, b1);
      b2 = hn::MulAdd(gb, x2, b2);
      b3 = hn::MulAdd(gb, x3, b3);
    }
    hn::StoreU(a0, d, s), hn::StoreU(a1, d, s + lanes);
    hn::StoreU(a2, d, s + 2 * lanes), hn::StoreU(a3, d, s + 3 * lanes);
    hn::StoreU(b0, d, s + 4 * lanes), hn::StoreU(b1, d, s + 5 * lanes);
    hn::StoreU(b2, d, s + 6 * lanes), hn::StoreU(b3, d, s + 7 * lanes);
  }
}

template <class T>
HWY_INLINE void AccumulateStage(int channels, int stride, const T* g, const T* x, T* sums) {
  const hn::ScalableTag<T> d;
  const std::size_t step = static_cast<std::size_t>(stride) * kTileTokens;
  for (int i = 0; i < channels / 4; ++i) {
    const std::size_t first = static_cast<std::size_t>(FirstChannel(i, stride)) * kTileTokens;
    AccumulateBlock(step, g + first, x + first, sums + static_cast<std::size_t>(i) * 16 * hn::Lanes(d));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
