// SPDX-License-Identifier: Apache-2.0
#include "lib/convert.h"

#include <algorithm>

#include "lib/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/convert.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "lib/convert-inl.h"

#if HWY_ONCE
namespace so4cal {

HWY_EXPORT(F16ToF32Kernel);
HWY_EXPORT(Bf16ToF32Kernel);
HWY_EXPORT(F32ToF16Kernel);
HWY_EXPORT(F32ToBf16Kernel);

void F16ToF32(std::span<const std::uint16_t> in, std::span<float> out) noexcept {
  SO4CAL_CHECK(in.size() == out.size());
  HWY_DYNAMIC_DISPATCH(F16ToF32Kernel)(in.data(), out.data(), in.size());
}

void Bf16ToF32(std::span<const std::uint16_t> in, std::span<float> out) noexcept {
  SO4CAL_CHECK(in.size() == out.size());
  HWY_DYNAMIC_DISPATCH(Bf16ToF32Kernel)(in.data(), out.data(), in.size());
}

void F32ToF16(std::span<const float> in, std::span<std::uint16_t> out) noexcept {
  SO4CAL_CHECK(in.size() == out.size());
  HWY_DYNAMIC_DISPATCH(F32ToF16Kernel)(in.data(), out.data(), in.size());
}

void F32ToBf16(std::span<const float> in, std::span<std::uint16_t> out) noexcept {
  SO4CAL_CHECK(in.size() == out.size());
  HWY_DYNAMIC_DISPATCH(F32ToBf16Kernel)(in.data(), out.data(), in.size());
}

// IEEE rounding of the language's own conversion: one instruction, nothing to gain from a kernel.
void F64ToF32(std::span<const double> in, std::span<float> out) noexcept {
  SO4CAL_CHECK(in.size() == out.size());
  std::transform(in.begin(), in.end(), out.begin(), [](double v) { return static_cast<float>(v); });
}

}  // namespace so4cal
#endif
