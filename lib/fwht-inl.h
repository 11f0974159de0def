// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_FWHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_FWHT_INL_H_
#undef SO4CAL_LIB_FWHT_INL_H_
#else
#define SO4CAL_LIB_FWHT_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x[i], x[i+h] <- sum, difference. h is a multiple of D's lanes.
template <class D>
HWY_INLINE void FwhtStride(D d, float* HWY_RESTRICT x, size_t size, size_t h) {
  for (size_t base = 0; base < size; base += 2 * h)
    for (size_t i = base; i < base + h; i += hn::Lanes(d)) {
      const auto a = hn::LoadU(d, x + i);
      const auto b = hn::LoadU(d, x + i + h);
      hn::StoreU(hn::Add(a, b), d, x + i);
      hn::StoreU(hn::Sub(a, b), d, x + i + h);
    }
}

#if HWY_TARGET != HWY_SCALAR
// Strides 1 and 2 inside groups of four lanes. Returns where it stopped: less than a vector is left.
template <class D>
HWY_INLINE size_t FwhtQuads(D d, float* HWY_RESTRICT x, size_t begin, size_t size) {
  const hn::Repartition<double, D> pairs;
  size_t i = begin;
  for (; i + hn::Lanes(d) <= size; i += hn::Lanes(d)) {
    auto v = hn::LoadU(d, x + i);
    auto swapped = hn::Shuffle2301(v);
    v = hn::OddEven(hn::Sub(swapped, v), hn::Add(v, swapped));
    swapped = hn::Shuffle1032(v);
    const auto sum = hn::BitCast(pairs, hn::Add(v, swapped));
    const auto difference = hn::BitCast(pairs, hn::Sub(swapped, v));
    hn::StoreU(hn::BitCast(d, hn::OddEven(difference, sum)), d, x + i);
  }
  return i;
}
#endif

HWY_INLINE void FwhtKernel(float* HWY_RESTRICT x, size_t size, size_t section, float scale) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 8> d8;
  const hn::CappedTag<float, 4> d4;
#if HWY_TARGET == HWY_SCALAR
  for (size_t h = 1; h < 4; h *= 2) FwhtStride(d, x, size, h);
#else
  FwhtQuads(d4, x, FwhtQuads(d, x, 0, size), size);
#endif
  for (size_t h = 4; h < section; h *= 2) {
    if (h >= hn::Lanes(d)) {
      FwhtStride(d, x, size, h);
    } else if (h >= hn::Lanes(d8)) {
      FwhtStride(d8, x, size, h);
    } else {
      FwhtStride(d4, x, size, h);
    }
  }
  for (size_t i = 0; i < size; ++i) x[i] *= scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
