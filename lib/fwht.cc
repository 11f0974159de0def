// SPDX-License-Identifier: Apache-2.0
#include "lib/fwht.h"

#include <bit>
#include <cmath>

#include "lib/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/fwht.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "lib/fwht-inl.h"

#if HWY_ONCE
namespace so4cal {

HWY_EXPORT(FwhtKernel);

void Fwht(std::span<float> x, std::size_t section) noexcept {
  SO4CAL_CHECK(section >= 4 && std::has_single_bit(section) && x.size() % section == 0);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(section)));
  HWY_DYNAMIC_DISPATCH(FwhtKernel)(x.data(), x.size(), section, scale);
}

}  // namespace so4cal
#endif
