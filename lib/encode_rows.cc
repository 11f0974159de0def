// SPDX-License-Identifier: Apache-2.0
#include "lib/encode_rows.h"

#include "lib/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/encode_rows.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "lib/encode_rows-inl.h"

#if HWY_ONCE
namespace so4cal {

HWY_EXPORT(EncodeRowsKernel);

void EncodeRotatedRows(const CodecSpec& spec, const RoundingMetric* metric, std::span<const float> z,
                       std::span<std::uint8_t> rows) noexcept {
  const auto n = static_cast<std::size_t>(spec.head_dim);
  SO4CAL_CHECK(z.size() % n == 0 && rows.size() == z.size() / n * spec.row_bytes());
  const Grid& grid = GridFor(spec.grid, spec.bits);
  EncodeArgs a;
  a.n = n;
  a.block = static_cast<std::size_t>(spec.block);
  a.num_blocks = static_cast<std::size_t>(spec.num_blocks());
  a.bits = spec.bits;
  a.levels = grid.levels.data();
  a.num_levels = grid.levels.size();
  a.midpoints = grid.midpoints.data();
  a.top = grid.top;
  a.signed_absmax = grid.kind == GridKind::kFull;
  if (spec.scale == ScaleRule::kMse) {
    a.ratios = grid.mse_ratios.data();
    a.num_ratios = grid.mse_ratios.size();
  }
  if (metric != nullptr) {
    a.push = metric->push.data();
    a.metric = metric->metric.data();
    a.rounds = metric->rounds;
  }
  a.row_bytes = spec.row_bytes();
  a.low_at = spec.scale_bytes();
  a.high_at = spec.scale_bytes() + spec.low_bytes();
  HWY_DYNAMIC_DISPATCH(EncodeRowsKernel)(a, z.data(), z.size() / n, rows.data());
}

}  // namespace so4cal
#endif
