// SPDX-License-Identifier: Apache-2.0
#include "lib/decode_rows.h"

#include "lib/error.h"
#include "lib/packed_side.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/decode_rows.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "lib/decode_rows-inl.h"

#if HWY_ONCE
namespace so4cal {

HWY_EXPORT(DecodeRowsKernel);

void DecodeRotatedRows(const CodecSpec& spec, std::span<const std::uint8_t> rows,
                       std::span<float> z) noexcept {
  const PackedSide side(spec);
  SO4CAL_CHECK(rows.size() % side.row_bytes == 0 && z.size() == rows.size() / side.row_bytes * side.n);
  HWY_DYNAMIC_DISPATCH(DecodeRowsKernel)(side, rows.data(), rows.size() / side.row_bytes, z.data());
}

}  // namespace so4cal
#endif
