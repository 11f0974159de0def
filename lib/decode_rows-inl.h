// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_DECODE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_DECODE_ROWS_INL_H_
#undef SO4CAL_LIB_DECODE_ROWS_INL_H_
#else
#define SO4CAL_LIB_DECODE_ROWS_INL_H_
#endif

#include "lib/half.h"
#include "lib/packed_levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr size_t kPassRows = 64;  // most rows of a pass; a multiple of every lane count
inline constexpr size_t kMaxScales = 4096;

// Rows of a pass, so that their scales fit ScaleTable: fewer where a row has more than 64 blocks.
HWY_INLINE size_t PassRows(const PackedSide& side) {
  return HWY_MIN(kPassRows, kMaxScales / side.num_blocks);
}

using ScaleTable = float[kMaxScales];  // [row][block]

// The scales of num_rows <= PassRows() rows.
HWY_INLINE void LoadScales(const PackedSide& side, const std::uint8_t* rows, size_t num_rows,
                           ScaleTable& scales) {
  const hn::CappedTag<float, 4> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  float* HWY_RESTRICT out = scales;
  for (size_t t = 0; t < num_rows; ++t, out += side.num_blocks) {
    const std::uint8_t* row = rows + t * side.row_bytes;
    size_t b = 0;
    for (; b + hn::Lanes(d) <= side.num_blocks; b += hn::Lanes(d)) {
      alignas(16) hwy::float16_t half[4];
      std::memcpy(half, row + 2 * b, 2 * hn::MaxLanes(d));
      hn::StoreU(hn::PromoteTo(d, hn::Load(dh, half)), d, out + b);
    }
    for (; b < side.num_blocks; ++b)
      out[b] = FloatFromHalf(static_cast<std::uint16_t>(row[2 * b] | row[2 * b + 1] << 8));
  }
}

HWY_INLINE void DecodeRowsKernel(const PackedSide& side, const std::uint8_t* rows, size_t num_rows,
                                 float* HWY_RESTRICT z) {
  const size_t step = PassRows(side);
  ScaleTable scales;
  WithLevels(side, [&](auto d, const auto& levels) HWY_ATTR {
    for (size_t r = 0; r < num_rows; ++r) {
      const std::uint8_t* row = rows + r * side.row_bytes;
      if (r % step == 0) LoadScales(side, row, HWY_MIN(step, num_rows - r), scales);
      for (size_t b = 0; b < side.num_blocks; ++b) {
        const auto scale = hn::Set(d, scales[r % step * side.num_blocks + b]);
        for (size_t c = b * side.block; c < (b + 1) * side.block; c += hn::Lanes(d))
          hn::StoreU(hn::Mul(scale, levels.At(d, row, c)), d, z + r * side.n + c);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
