// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_CONVERT_INL_H_
#undef SO4CAL_LIB_CONVERT_INL_H_
#else
#define SO4CAL_LIB_CONVERT_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lib/half.h"

// The steps of lib/half.h, lane by lane. Not the targets' own f16 instructions: those differ in the bits of
// NaN, and most targets have none.
HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class DU, class VU = hn::Vec<DU>>
HWY_INLINE VU FloatBitsFromHalf(DU du, VU h) {
  const hn::RebindToFloat<DU> df;
  const auto magnitude = hn::ShiftLeft<13>(hn::And(h, hn::Set(du, 0x7fffu)));
  const auto sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(du, 0x8000u)));
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(df, magnitude), hn::Set(df, 0x1p112f)));
  const auto infinity = hn::Set(du, 0x0f800000u);  // 0x7c00 shifted by 13
  const auto is_nan = hn::Gt(hn::BitCast(hn::RebindToSigned<DU>(), magnitude),
                             hn::BitCast(hn::RebindToSigned<DU>(), infinity));
  const auto quiet = hn::And(hn::VecFromMask(du, hn::RebindMask(du, is_nan)), hn::Set(du, 0x00400000u));
  const auto special = hn::Or(hn::Or(magnitude, hn::Set(du, 0x7f800000u)), quiet);
  const auto is_special = hn::Eq(hn::And(magnitude, infinity), infinity);
  return hn::Or(sign, hn::IfThenElse(is_special, special, finite));
}

template <class DU, class VU = hn::Vec<DU>>
HWY_INLINE VU HalfFromFloatBits(DU du, VU bits) {
  const hn::RebindToFloat<DU> df;
  const hn::RebindToSigned<DU> di;
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto signed_magnitude = hn::BitCast(di, magnitude);
  const auto is_small = hn::RebindMask(du, hn::Lt(signed_magnitude, hn::Set(di, 0x38800000)));
  const auto is_large = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x477fffff)));
  const auto is_nan = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x7f800000)));
  const auto nan = hn::Or(hn::Set(du, 0x7e00u), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x03ffu)));
  const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f))),
                             hn::Set(du, 0x3f000000u));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const auto rebiased = hn::Add(hn::Sub(magnitude, hn::Set(du, 0x38000000u)), hn::Set(du, 0x0fffu));
  const auto normal = hn::ShiftRight<13>(hn::Add(rebiased, odd));
  auto h = hn::IfThenElse(is_small, small, normal);
  h = hn::IfThenElse(is_large, hn::Set(du, 0x7c00u), h);
  h = hn::IfThenElse(is_nan, nan, h);
  return hn::Or(sign, h);
}

template <class DU, class VU = hn::Vec<DU>>
HWY_INLINE VU BfloatFromFloatBits(DU du, VU bits) {
  const hn::RebindToSigned<DU> di;
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd));
  const auto nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x0040u));
  const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(du, 0x7fffffffu)));
  const auto is_nan = hn::RebindMask(du, hn::Gt(magnitude, hn::Set(di, 0x7f800000)));
  return hn::IfThenElse(is_nan, nan, rounded);
}

// 16-bit patterns to float bits; `scalar` does what is left after the whole vectors.
template <class Op, class Scalar>
HWY_INLINE void WidenAll(const std::uint16_t* HWY_RESTRICT in, float* HWY_RESTRICT out, size_t n, Op op,
                         Scalar scalar) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  size_t i = 0;
  for (; i + hn::Lanes(df) <= n; i += hn::Lanes(df))
    hn::StoreU(hn::BitCast(df, op(du, hn::PromoteTo(du, hn::LoadU(d16, in + i)))), df, out + i);
  for (; i < n; ++i) out[i] = scalar(in[i]);
}

template <class Op, class Scalar>
HWY_INLINE void NarrowAll(const float* HWY_RESTRICT in, std::uint16_t* HWY_RESTRICT out, size_t n, Op op,
                          Scalar scalar) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  size_t i = 0;
  for (; i + hn::Lanes(df) <= n; i += hn::Lanes(df)) {
    const auto narrow = op(du, hn::BitCast(du, hn::LoadU(df, in + i)));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, narrow)), d16, out + i);
  }
  for (; i < n; ++i) out[i] = scalar(in[i]);
}

// Named functors: a lambda would not carry the target's instruction set.
struct HalfToFloat {
  template <class DU, class VU>
  HWY_INLINE VU operator()(DU du, VU h) const {
    return FloatBitsFromHalf(du, h);
  }
};
struct BfloatToFloat {
  template <class DU, class VU>
  HWY_INLINE VU operator()(DU, VU b) const {
    return hn::ShiftLeft<16>(b);
  }
};
struct FloatToHalf {
  template <class DU, class VU>
  HWY_INLINE VU operator()(DU du, VU bits) const {
    return HalfFromFloatBits(du, bits);
  }
};
struct FloatToBfloat {
  template <class DU, class VU>
  HWY_INLINE VU operator()(DU du, VU bits) const {
    return BfloatFromFloatBits(du, bits);
  }
};

HWY_INLINE void F16ToF32Kernel(const std::uint16_t* in, float* out, size_t n) {
  WidenAll(in, out, n, HalfToFloat(), FloatFromHalf);
}
HWY_INLINE void Bf16ToF32Kernel(const std::uint16_t* in, float* out, size_t n) {
  WidenAll(in, out, n, BfloatToFloat(), FloatFromBfloat);
}
HWY_INLINE void F32ToF16Kernel(const float* in, std::uint16_t* out, size_t n) {
  NarrowAll(in, out, n, FloatToHalf(), HalfFromFloat);
}
HWY_INLINE void F32ToBf16Kernel(const float* in, std::uint16_t* out, size_t n) {
  NarrowAll(in, out, n, FloatToBfloat(), BfloatFromFloat);
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
