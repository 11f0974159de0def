// SPDX-License-Identifier: Apache-2.0
#include "lib/attend_rows.h"

#include <algorithm>
#include <array>

#include "lib/error.h"
#include "lib/packed_side.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/attend_rows.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "lib/attend_rows-inl.h"

#if HWY_ONCE
namespace so4cal {
namespace {

constexpr std::size_t kMaxHeadDim = 1024;
using PassQueries = std::array<float, kMaxPassQueries * kMaxHeadDim>;

// The kernels take one query or a full pass: those that are not there are zeros.
PassQueries FullPass(std::span<const float> queries) noexcept {
  PassQueries full{};
  std::copy(queries.begin(), queries.end(), full.begin());
  return full;
}

}  // namespace

HWY_EXPORT(AttendRowsKernel);
HWY_EXPORT(ScoreRowsKernel);

void AttendRows(const CodecSpec& key_spec, std::span<const std::uint8_t> key_rows,
                const CodecSpec& value_spec, std::span<const std::uint8_t> value_rows,
                std::span<const float> queries, SoftmaxState& state, std::span<float> sums) noexcept {
  const PackedSide keys(key_spec), values(value_spec);
  const std::size_t num_rows = key_rows.size() / keys.row_bytes, num_queries = queries.size() / keys.n;
  SO4CAL_CHECK(key_rows.size() == num_rows * keys.row_bytes &&
               value_rows.size() == num_rows * values.row_bytes);
  SO4CAL_CHECK(num_queries >= 1 && num_queries <= kMaxPassQueries && queries.size() == num_queries * keys.n);
  SO4CAL_CHECK(sums.size() == num_queries * values.n);
  const auto attend = [&](const float* q, std::size_t count, float* out) {
    HWY_DYNAMIC_DISPATCH(AttendRowsKernel)
    (keys, key_rows.data(), values, value_rows.data(), num_rows, q, count, state, out);
  };
  if (num_queries == 1 || num_queries == kMaxPassQueries)
    return attend(queries.data(), num_queries, sums.data());
  const PassQueries full = FullPass(queries);
  PassQueries full_sums = FullPass(sums);
  attend(full.data(), kMaxPassQueries, full_sums.data());
  std::copy_n(full_sums.begin(), sums.size(), sums.begin());
}

void ScoreRows(const CodecSpec& key_spec, std::span<const std::uint8_t> key_rows,
               std::span<const float> queries, std::span<float> scores) noexcept {
  const PackedSide keys(key_spec);
  const std::size_t num_rows = key_rows.size() / keys.row_bytes, num_queries = queries.size() / keys.n;
  SO4CAL_CHECK(key_rows.size() == num_rows * keys.row_bytes && scores.size() == num_queries * num_rows);
  SO4CAL_CHECK(num_queries >= 1 && num_queries <= kMaxPassQueries && queries.size() == num_queries * keys.n);
  const PassQueries full = FullPass(queries);
  HWY_DYNAMIC_DISPATCH(ScoreRowsKernel)
  (keys, key_rows.data(), num_rows, full.data(), num_queries, scores.data());
}

}  // namespace so4cal
#endif
