// SPDX-License-Identifier: Apache-2.0
#include "lib/convert.h"

#include <algorithm>

#include "lib/error.h"
#include "lib/half.h"

namespace so4cal {
namespace {
template <class In, class Out, class Op>
void Map(std::span<const In> in, std::span<Out> out, Op op) noexcept {
  SO4CAL_CHECK(in.size() == out.size());
  std::transform(in.begin(), in.end(), out.begin(), op);
}
}  // namespace

void F16ToF32(std::span<const std::uint16_t> in, std::span<float> out) noexcept {
  Map(in, out, FloatFromHalf);
}
void Bf16ToF32(std::span<const std::uint16_t> in, std::span<float> out) noexcept {
  Map(in, out, FloatFromBfloat);
}
void F64ToF32(std::span<const double> in, std::span<float> out) noexcept {
  Map(in, out, [](double v) { return static_cast<float>(v); });
}
void F32ToF16(std::span<const float> in, std::span<std::uint16_t> out) noexcept {
  Map(in, out, HalfFromFloat);
}
void F32ToBf16(std::span<const float> in, std::span<std::uint16_t> out) noexcept {
  Map(in, out, BfloatFromFloat);
}

}  // namespace so4cal
