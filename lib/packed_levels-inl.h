// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_PACKED_LEVELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_PACKED_LEVELS_INL_H_
#undef SO4CAL_LIB_PACKED_LEVELS_INL_H_
#else
#define SO4CAL_LIB_PACKED_LEVELS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "lib/packed_side.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// kBits (at most 32) of a plane from bit `begin` on, in the low bits. Codes of a vector begin at a whole
// byte, or lie within one. Planes are little-endian, and so are all targets.
template <size_t kBits>
HWY_INLINE std::uint32_t PlaneBits(const std::uint8_t* plane, size_t begin) {
  if constexpr (kBits < 8) return static_cast<std::uint32_t>(plane[begin / 8]) >> (begin % 8);
  std::uint32_t word = 0;
  std::memcpy(&word, plane + begin / 8, kBits / 8);
  return word;
}

// The levels of the codes of consecutive channels of a row, straight from its planes. D: floats, 1, 4, 8 or
// 16 lanes, so many that the first channel is a multiple of them.
template <class D, int kBits>
class PackedLevels {
  using DU = hn::RebindToUnsigned<D>;
  using DI = hn::RebindToSigned<D>;
  using VU = hn::Vec<DU>;
  static constexpr size_t kLanes = hn::MaxLanes(D()), kHighWidth = kBits - 2;
  // Tables of as many levels as a lookup can tell apart, repeated where there are more lanes than levels.
  static constexpr size_t kNumLevels = size_t{1} << kBits, kTableSize = HWY_MIN(kNumLevels, kLanes),
                          kNumTables = kNumLevels / kTableSize;

 public:
  explicit PackedLevels(const PackedSide& side) : low_at_(side.low_at), high_at_(side.high_at) {
    for (size_t t = 0; t < kNumTables; ++t)
      for (size_t i = 0; i < kLanes; ++i) tables_[t][i] = side.levels[t * kTableSize + i % kTableSize];
  }

  HWY_INLINE hn::Vec<D> At(D d, const std::uint8_t* row, size_t channel) const {
    const DU du;
    const VU lane = hn::Iota(du, 0), twice = hn::ShiftLeft<1>(lane), three = hn::Set(du, 3u);
    const std::uint32_t low = PlaneBits<2 * kLanes>(row + low_at_, 2 * channel);
    VU code = hn::And(hn::Shr(hn::Set(du, low), twice), three);
    if constexpr (kHighWidth > 0) {  // shifted to its place in the code before the lanes part
      const std::uint32_t high = PlaneBits<kHighWidth * kLanes>(row + high_at_, kHighWidth * channel);
      if constexpr (kHighWidth * kLanes + 2 <= 32) {
        const VU word = hn::Shr(hn::Set(du, high << 2), kHighWidth == 1 ? lane : twice);
        code = hn::Or(code, hn::And(word, hn::Set(du, kHighWidth == 1 ? 4u : 12u)));
      } else {
        const VU word = hn::And(hn::Shr(hn::Set(du, high), twice), three);
        code = hn::Or(code, hn::ShiftLeft<2>(word));
      }
    }
    return Lookup(d, code);
  }

 private:
  HWY_INLINE hn::Vec<D> Lookup(D d, VU code) const {
    if constexpr (kLanes == 1) {
      return hn::Set(d, tables_[hn::GetLane(code)][0]);
    } else {
      const DI di;
      const auto signed_code = hn::BitCast(di, code);
      const auto within = hn::Set(di, static_cast<std::int32_t>(kTableSize - 1));
      const auto index = hn::IndicesFromVec(d, kNumTables == 1 ? signed_code : hn::And(signed_code, within));
      auto level = hn::TableLookupLanes(hn::Load(d, tables_[0]), index);
      for (size_t t = 1; t < kNumTables; ++t) {
        const auto here = hn::Gt(signed_code, hn::Set(di, static_cast<std::int32_t>(t * kTableSize - 1)));
        const auto of_table = hn::TableLookupLanes(hn::Load(d, tables_[t]), index);
        level = hn::IfThenElse(hn::RebindMask(d, here), of_table, level);
      }
      return level;
    }
  }

  size_t low_at_, high_at_;
  alignas(64) float tables_[kNumTables][kLanes];
};

template <class D, class Body>
HWY_INLINE void WithBits(D d, const PackedSide& side, const Body& body) {
  if (side.bits == 2) return body(d, PackedLevels<D, 2>(side));
  if (side.bits == 3) return body(d, PackedLevels<D, 3>(side));
  body(d, PackedLevels<D, 4>(side));
}

// Runs body(d, levels) with vectors of which a block is a whole number: full ones if possible, at most 16
// lanes.
template <class Body>
HWY_INLINE void WithLevels(const PackedSide& side, const Body& body) {
#if !HWY_HAVE_SCALABLE  // vectors of a length that the compiler does not know take one channel at a time
  constexpr size_t kFull = HWY_MIN(HWY_LANES(float), 16), kHalf = HWY_MIN(kFull, 8);
  if (side.block % kFull == 0) return WithBits(hn::FixedTag<float, kFull>(), side, body);
  if (side.block % kHalf == 0) return WithBits(hn::FixedTag<float, kHalf>(), side, body);
#endif
  WithBits(hn::FixedTag<float, 1>(), side, body);
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
