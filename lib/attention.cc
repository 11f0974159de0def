// SPDX-License-Identifier: Apache-2.0
#include "lib/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/attend_rows.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::size_t kMaxHeadDim = 1024;
constexpr std::size_t kCheckRows = 512;  // rows that stay in the cache from the check to their use

RowStatus FirstNotFinite(std::span<const float> x, std::size_t channels) noexcept {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i])) return {RowError::kNotFinite, i / channels, static_cast<int>(i % channels)};
  return {};
}

struct Rows {
  std::span<const std::uint8_t> bytes;
  std::size_t row_bytes;
  std::size_t count() const { return bytes.size() / row_bytes; }
  std::span<const std::uint8_t> piece(std::size_t first, std::size_t num) const {
    return bytes.subspan(first * row_bytes, num * row_bytes);
  }
};

RowStatus CheckPiece(const HeadCodec& codec, const Rows& rows, std::size_t first,
                     std::size_t count) noexcept {
  RowStatus status = codec.CheckRows(rows.piece(first, count));
  status.row += status.ok() ? 0 : first;
  return status;
}

// queries: at most kMaxPassQueries in the rotated frame, times softmax_scale. out: as many rows in the
// rotated frame of the values; written only when all rows are fine.
RowStatus AttendGroup(const HeadCodec& keys, const HeadCodec& values, const Rows& key_rows,
                      const Rows& value_rows, std::span<const float> queries, std::span<float> out) noexcept {
  const auto dv = static_cast<std::size_t>(values.spec().head_dim);
  std::array<float, kMaxPassQueries * kMaxHeadDim> storage;
  const std::span<float> sums = std::span(storage).first(out.size());
  std::fill(sums.begin(), sums.end(), 0.0f);
  SoftmaxState state;
  for (std::size_t first = 0; first < key_rows.count(); first += kCheckRows) {
    const std::size_t count = std::min(kCheckRows, key_rows.count() - first);
    if (const RowStatus status = CheckPiece(keys, key_rows, first, count); !status.ok()) return status;
    if (const RowStatus status = CheckPiece(values, value_rows, first, count); !status.ok()) return status;
    AttendRows(keys.spec(), key_rows.piece(first, count), values.spec(), value_rows.piece(first, count),
               queries, state, sums);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) out[i] = sums[i] / state.weight_sum[i / dv];
  return {};
}

}  // namespace

RowStatus Attention(const HeadCodec& keys, const HeadCodec& values, std::span<const std::uint8_t> key_rows,
                    std::span<const std::uint8_t> value_rows, float softmax_scale,
                    std::span<const float> queries, std::span<float> out) noexcept {
  const auto d = static_cast<std::size_t>(keys.spec().head_dim),
             dv = static_cast<std::size_t>(values.spec().head_dim);
  const Rows k{key_rows, keys.spec().row_bytes()}, v{value_rows, values.spec().row_bytes()};
  SO4CAL_CHECK(key_rows.size() % k.row_bytes == 0 && value_rows.size() % v.row_bytes == 0);
  SO4CAL_CHECK(k.count() == v.count() && k.count() > 0 && std::isfinite(softmax_scale));
  SO4CAL_CHECK(queries.size() % d == 0 && out.size() == queries.size() / d * dv);
  if (const RowStatus status = FirstNotFinite(queries, d); !status.ok()) return status;

  std::array<float, kMaxPassQueries * kMaxHeadDim> rotated;
  for (std::size_t first = 0; first < queries.size() / d; first += kMaxPassQueries) {
    const std::size_t count = std::min(kMaxPassQueries, queries.size() / d - first);
    const std::span<float> group = std::span(rotated).first(count * d);
    std::copy_n(queries.begin() + static_cast<std::ptrdiff_t>(first * d), count * d, group.begin());
    keys.RotateQuery(group);
    for (float& q : group) q *= softmax_scale;
    const std::span<float> group_out = out.subspan(first * dv, count * dv);
    if (const RowStatus status = AttendGroup(keys, values, k, v, group, group_out); !status.ok())
      return status;
    values.Unrotate(group_out);
  }
  return {};
}

}  // namespace so4cal
