// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_ROW_MAGNITUDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_ROW_MAGNITUDE_INL_H_
#undef SO4CAL_LIB_ROW_MAGNITUDE_INL_H_
#else
#define SO4CAL_LIB_ROW_MAGNITUDE_INL_H_
#endif

#include <cmath>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `offset` is null without one.
HWY_INLINE float RowMagnitudeKernel(const float* HWY_RESTRICT x, const float* HWY_RESTRICT offset, size_t n) {
  const hn::ScalableTag<float> d;
  auto largest = hn::Zero(d), not_a_number = hn::Zero(d);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    auto v = hn::LoadU(d, x + i);
    if (offset != nullptr) v = hn::Sub(v, hn::LoadU(d, offset + i));
    largest = hn::Max(largest, hn::Abs(v));               // Max drops a NaN on one side:
    not_a_number = hn::Add(not_a_number, hn::Sub(v, v));  // 0, or NaN from the first NaN or infinity on
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, not_a_number)), most = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < n; ++i) {
    const float v = offset != nullptr ? x[i] - offset[i] : x[i];
    most = HWY_MAX(most, std::abs(v));
    sum += v - v;
  }
  return most + sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
