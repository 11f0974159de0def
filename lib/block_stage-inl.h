// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_BLOCK_STAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_BLOCK_STAGE_INL_H_
#undef SO4CAL_LIB_BLOCK_STAGE_INL_H_
#else
#define SO4CAL_LIB_BLOCK_STAGE_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of head_dim floats, and the matrices of lib/block_stage.h.
struct StageArgs {
  const float* coefficients;
  size_t num_blocks;  // per row
  size_t stride;
  float* x;
  size_t num_rows;
  size_t head_dim;
};

// Where block i starts in a row.
HWY_INLINE size_t FirstOf(const StageArgs& s, size_t i) {
  return 4 * s.stride * (i / s.stride) + i % s.stride;
}

// One output of a block. Never MulAdd: not every target has it.
template <class V>
HWY_INLINE V RowTimesVector(const V* m, V v0, V v1, V v2, V v3) {
  return hn::Add(hn::Add(hn::Mul(m[0], v0), hn::Mul(m[1], v1)),
                 hn::Add(hn::Mul(m[2], v2), hn::Mul(m[3], v3)));
}

// Lanes(d) blocks at a time from block i up to `end`; returns the first block not done. Stride 1 has the
// four channels of a block side by side, all others have the same channel of neighbouring blocks so.
template <bool kInterleaved, class D>
HWY_INLINE size_t ApplyBlocks(D d, const StageArgs& s, size_t i, size_t end) {
  const size_t lanes = hn::Lanes(d);
  for (; i + lanes <= end; i += lanes) {
    hn::Vec<D> m[16];
    for (size_t e = 0; e < 16; ++e) m[e] = hn::LoadU(d, s.coefficients + e * s.num_blocks + i);
    float* HWY_RESTRICT p = s.x + FirstOf(s, i);
    for (size_t row = 0; row < s.num_rows; ++row, p += s.head_dim) {
      hn::Vec<D> v0, v1, v2, v3;
      if constexpr (kInterleaved) {
        hn::LoadInterleaved4(d, p, v0, v1, v2, v3);
      } else {
        v0 = hn::LoadU(d, p);
        v1 = hn::LoadU(d, p + s.stride);
        v2 = hn::LoadU(d, p + 2 * s.stride);
        v3 = hn::LoadU(d, p + 3 * s.stride);
      }
      const auto r0 = RowTimesVector(m, v0, v1, v2, v3);
      const auto r1 = RowTimesVector(m + 4, v0, v1, v2, v3);
      const auto r2 = RowTimesVector(m + 8, v0, v1, v2, v3);
      const auto r3 = RowTimesVector(m + 12, v0, v1, v2, v3);
      if constexpr (kInterleaved) {
        hn::StoreInterleaved4(r0, r1, r2, r3, d, p);
      } else {
        hn::StoreU(r0, d, p);
        hn::StoreU(r1, d, p + s.stride);
        hn::StoreU(r2, d, p + 2 * s.stride);
        hn::StoreU(r3, d, p + 3 * s.stride);
      }
    }
  }
  return i;
}

// What is left when fewer than four neighbouring blocks remain.
HWY_INLINE void ApplyBlocksScalar(const StageArgs& s, size_t i, size_t end) {
  for (; i < end; ++i) {
    float* p = s.x + FirstOf(s, i);
    for (size_t row = 0; row < s.num_rows; ++row, p += s.head_dim) {
      const float v[4] = {p[0], p[s.stride], p[2 * s.stride], p[3 * s.stride]};
      for (size_t r = 0; r < 4; ++r) {
        const float* m = s.coefficients + 4 * r * s.num_blocks + i;
        p[r * s.stride] = (m[0] * v[0] + m[s.num_blocks] * v[1]) +
                          (m[2 * s.num_blocks] * v[2] + m[3 * s.num_blocks] * v[3]);
      }
    }
  }
}

template <bool kInterleaved>
HWY_INLINE void ApplyRun(const StageArgs& s, size_t begin, size_t end) {
  size_t i = ApplyBlocks<kInterleaved>(hn::ScalableTag<float>(), s, begin, end);
  i = ApplyBlocks<kInterleaved>(hn::CappedTag<float, 8>(), s, i, end);
  i = ApplyBlocks<kInterleaved>(hn::CappedTag<float, 4>(), s, i, end);
  ApplyBlocksScalar(s, i, end);
}

HWY_INLINE void StageKernel(const float* coefficients, size_t stride, size_t head_dim, float* x,
                            size_t num_rows) {
  const StageArgs s{coefficients, head_dim / 4, stride, x, num_rows, head_dim};
  if (stride == 1) return ApplyRun<true>(s, 0, s.num_blocks);
  for (size_t begin = 0; begin < s.num_blocks; begin += stride) ApplyRun<false>(s, begin, begin + stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
