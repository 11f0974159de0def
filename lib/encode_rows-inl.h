// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_LIB_ENCODE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_LIB_ENCODE_ROWS_INL_H_
#undef SO4CAL_LIB_ENCODE_ROWS_INL_H_
#else
#define SO4CAL_LIB_ENCODE_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lib/convert-inl.h"
#include "lib/encode_absmax-inl.h"
#include "lib/encode_tile.h"
#include "lib/feedback_refine-inl.h"
#include "lib/feedback_round-inl.h"
#include "lib/quantize_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows to lanes; lanes without a row are zero blocks, which stay so.
HWY_INLINE void LoadTile(const float* HWY_RESTRICT z, size_t n, size_t rows, size_t width,
                         float* HWY_RESTRICT tile) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t t = 0; t < rows; ++t) tile[i * width + t] = z[t * n + i];
    for (size_t t = rows; t < width; ++t) tile[i * width + t] = 0;
  }
}

template <class D>
HWY_INLINE void StoreScales(D d, const EncodeArgs& a, const EncodeTile& tile, size_t width, size_t rows,
                            std::uint8_t* out) {
  const hn::RebindToUnsigned<D> du;
  HWY_ALIGN std::uint32_t half[hn::MaxLanes(D())];
  for (size_t b = 0; b < a.num_blocks; ++b)
    for (size_t t = 0; t < rows; t += hn::Lanes(d)) {
      const auto bits = hn::BitCast(du, hn::Load(d, tile.scale + b * width + t));
      hn::Store(HalfFromFloatBits(du, bits), du, half);
      for (size_t k = 0; k < hn::Lanes(d) && t + k < rows; ++k) {
        std::uint8_t* at = out + (t + k) * a.row_bytes + 2 * b;
        at[0] = static_cast<std::uint8_t>(half[k] & 0xff);
        at[1] = static_cast<std::uint8_t>(half[k] >> 8);
      }
    }
}

// Codes of eight channels: bits 0-1 of each in the low half of a word, the others in the high half.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> CodeWords(D d, const EncodeArgs& a, const float* level,
                                                      size_t width) {
  const hn::RebindToUnsigned<D> du;
  auto low = hn::Zero(du), high = hn::Zero(du);
  for (int k = 0; k < 8; ++k) {
    const auto g = hn::Load(d, level + static_cast<size_t>(k) * width);
    auto code = hn::Zero(du);  // a mask is -1
    for (size_t m = 0; m + 1 < a.num_levels; ++m)
      code = hn::Sub(code, hn::BitCast(du, hn::VecFromMask(d, hn::Ge(g, hn::Set(d, a.midpoints[m])))));
    low = hn::Or(low, hn::ShiftLeftSame(hn::And(code, hn::Set(du, 3u)), 2 * k));
    high = hn::Or(high, hn::ShiftLeftSame(hn::ShiftRight<2>(code), (a.bits - 2) * k));
  }
  return hn::Or(low, hn::ShiftLeft<16>(high));
}

template <class D>
HWY_INLINE void StoreCodes(D d, const EncodeArgs& a, const EncodeTile& tile, size_t width, size_t rows,
                           std::uint8_t* out) {
  const hn::RebindToUnsigned<D> du;
  HWY_ALIGN std::uint32_t words[hn::MaxLanes(D())];
  const auto high_bytes = static_cast<size_t>(a.bits - 2);
  for (size_t i = 0; i < a.n; i += 8)
    for (size_t t = 0; t < rows; t += hn::Lanes(d)) {
      hn::Store(CodeWords(d, a, tile.level + i * width + t, width), du, words);
      for (size_t k = 0; k < hn::Lanes(d) && t + k < rows; ++k) {
        std::uint8_t* row = out + (t + k) * a.row_bytes;
        row[a.low_at + i / 4] = static_cast<std::uint8_t>(words[k] & 0xff);
        row[a.low_at + i / 4 + 1] = static_cast<std::uint8_t>((words[k] >> 8) & 0xff);
        for (size_t h = 0; h < high_bytes; ++h)
          row[a.high_at + i / 8 * high_bytes + h] =
              static_cast<std::uint8_t>((words[k] >> (16 + 8 * h)) & 0xff);
      }
    }
}

template <size_t kVectors, class D>
HWY_NOINLINE void EncodeTileOfRows(D d, const EncodeArgs& a, const float* z, size_t rows, std::uint8_t* out) {
  EncodeTile tile;
  const size_t width = TileWidth<D, kVectors>(d);
  LoadTile(z, a.n, rows, width, tile.z);
  ChooseTileScales<kVectors>(d, a, tile);
  if (a.push == nullptr) {
    RoundToNearest<kVectors>(d, a, tile);
  } else {
    PushErrorsOn<kVectors>(d, a, tile);
    if (a.rounds > 0) RefineTile<kVectors>(d, a, tile);
  }
  StoreScales(d, a, tile, width, rows, out);
  StoreCodes(d, a, tile, width, rows, out);
}

// Whether `width` tokens fit the buffers.
HWY_INLINE bool Fits(const EncodeArgs& a, size_t width) {
  return a.n * width <= kEncodeTileFloats &&
         (a.rounds == 0 || a.num_blocks * (a.num_blocks + 1) / 2 * width <= kEquationDoubles);
}

HWY_INLINE void EncodeRowsKernel(const EncodeArgs& a, const float* z, size_t rows, std::uint8_t* out) {
  if (a.push == nullptr && a.num_ratios == 0 && a.block % 8 == 0 && hn::Lanes(hn::CappedTag<float, 8>()) == 8)
    return EncodeAbsmaxRows(a, z, rows, out);
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 4> narrow;
  while (rows > 0) {
    size_t done;
    if (rows > hn::Lanes(wide) && Fits(a, 2 * hn::Lanes(wide))) {
      done = HWY_MIN(rows, 2 * hn::Lanes(wide));
      EncodeTileOfRows<2>(wide, a, z, done, out);
    } else if (rows > hn::Lanes(narrow) && Fits(a, hn::Lanes(wide))) {
      done = HWY_MIN(rows, hn::Lanes(wide));
      EncodeTileOfRows<1>(wide, a, z, done, out);
    } else {
      done = HWY_MIN(rows, hn::Lanes(narrow));
      EncodeTileOfRows<1>(narrow, a, z, done, out);
    }
    rows -= done;
    z += done * a.n;
    out += done * a.row_bytes;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
