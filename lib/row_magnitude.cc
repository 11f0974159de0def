// SPDX-License-Identifier: Apache-2.0
#include "lib/row_magnitude.h"

#include "lib/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/row_magnitude.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "lib/row_magnitude-inl.h"

#if HWY_ONCE
namespace so4cal {

HWY_EXPORT(RowMagnitudeKernel);

float RowMagnitude(std::span<const float> x, std::span<const float> offset) noexcept {
  SO4CAL_CHECK(offset.empty() || offset.size() == x.size());
  return HWY_DYNAMIC_DISPATCH(RowMagnitudeKernel)(x.data(), offset.empty() ? nullptr : offset.data(),
                                                  x.size());
}

}  // namespace so4cal
#endif
