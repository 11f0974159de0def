// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_ENCODE_ABSMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_ENCODE_ABSMAX_INL_H_
#undef SO4CAL_LIB_ENCODE_ABSMAX_INL_H_
#else
#define SO4CAL_LIB_ENCODE_ABSMAX_INL_H_
#endif

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lib/encode_tile.h"
#include "lib/half.h"

// `absmax` scales and nearest rounding with eight channels of a row in the lanes: nothing is added up, so the
// order of channels does not matter, and a row needs no transposing.
HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bit i of a byte at bit 2 i.
inline constexpr std::array<std::uint16_t, 256> kEverySecondBit = [] {
  std::array<std::uint16_t, 256> spread{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned bit = 0; bit < 8; ++bit)
      spread[byte] = static_cast<std::uint16_t>(spread[byte] | (byte >> bit & 1u) << 2 * bit);
  return spread;
}();

HWY_INLINE void StoreTwoBytes(std::uint32_t value, std::uint8_t* out) {
  out[0] = static_cast<std::uint8_t>(value & 0xff);
  out[1] = static_cast<std::uint8_t>(value >> 8);
}

template <class D>
HWY_INLINE float AbsmaxOfBlock(D d, const EncodeArgs& a, const float* z) {
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < a.block; i += hn::Lanes(d)) largest = hn::Max(largest, hn::Abs(hn::LoadU(d, z + i)));
  const float absmax = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (!a.signed_absmax) return absmax;
  for (size_t i = 0; i < a.block; ++i)  // the first of the largest magnitude, with its sign
    if (std::abs(z[i]) == absmax) return -z[i];
  return absmax;
}

// Eight codes to the planes at channel i.
template <class D>
HWY_INLINE void StoreEightCodes(D d, const EncodeArgs& a, hn::Vec<D> u, size_t i, std::uint8_t* row) {
  const hn::RebindToSigned<D> di;
  auto code = hn::Zero(di);  // a mask is -1
  for (size_t m = 0; m + 1 < a.num_levels; ++m)
    code = hn::Sub(code, hn::VecFromMask(di, hn::RebindMask(di, hn::Ge(u, hn::Set(d, a.midpoints[m])))));
  const auto plane = [&](int bit) HWY_ATTR {
    std::uint8_t bits[8];  // StoreMaskBits may write a whole word
    hn::StoreMaskBits(di, hn::TestBit(code, hn::Set(di, 1 << bit)), bits);
    return bits[0];
  };
  StoreTwoBytes(kEverySecondBit[plane(0)] | std::uint32_t{kEverySecondBit[plane(1)]} << 1,
                row + a.low_at + i / 4);
  if (a.bits == 3) row[a.high_at + i / 8] = plane(2);
  if (a.bits == 4)
    StoreTwoBytes(kEverySecondBit[plane(2)] | std::uint32_t{kEverySecondBit[plane(3)]} << 1,
                  row + a.high_at + i / 4);
}

// block is a multiple of 8, and vectors have eight lanes.
HWY_INLINE void EncodeAbsmaxRows(const EncodeArgs& a, const float* z, size_t rows, std::uint8_t* out) {
  const hn::CappedTag<float, 8> d;
  for (; rows > 0; --rows, z += a.n, out += a.row_bytes)
    for (size_t b = 0; b < a.num_blocks; ++b) {
      const float* block = z + b * a.block;
      std::uint16_t half = HalfFromFloat(AbsmaxOfBlock(d, a, block) / a.top);
      float scale = FloatFromHalf(half);
      if (scale == 0) scale = 0, half = 0;  // what rounds to 0 is +0
      const auto inverse = hn::Set(d, scale == 0 ? 0 : 1 / scale);
      StoreTwoBytes(half, out + 2 * b);
      for (size_t i = 0; i < a.block; i += 8)
        StoreEightCodes(d, a, hn::Mul(hn::LoadU(d, block + i), inverse), b * a.block + i, out);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
