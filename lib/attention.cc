// SPDX-License-Identifier: Apache-2.0
#include "lib/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::size_t kMaxHeadDim = 1024;
constexpr std::size_t kGroup = 4;  // queries that share one pass over the rows

// Softmax-weighted sum that sees one score at a time: the running maximum, the sum of the weights and of the
// weighted values, both relative to the maximum.
struct OnlineSoftmax {
  double maximum = -std::numeric_limits<double>::infinity();
  double weight_sum = 0;
  std::array<double, kMaxHeadDim> value_sum;

  void Add(double score, std::span<const float> value) noexcept {
    if (score > maximum) {
      const double shrink = std::exp(maximum - score);  // 0 at the first score
      weight_sum *= shrink;
      for (std::size_t i = 0; i < value.size(); ++i) value_sum[i] *= shrink;
      maximum = score;
    }
    const double weight = std::exp(score - maximum);
    weight_sum += weight;
    for (std::size_t i = 0; i < value.size(); ++i) value_sum[i] += weight * static_cast<double>(value[i]);
  }
};

struct Rows {
  std::span<const std::uint8_t> bytes;
  std::size_t row_bytes;
  std::size_t count() const { return bytes.size() / row_bytes; }
  std::span<const std::uint8_t> row(std::size_t i) const { return bytes.subspan(i * row_bytes, row_bytes); }
};

double Dot(std::span<const float> a, std::span<const float> b) noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// queries: at most kGroup rows, in the rotated frame. out: as many rows, in the rotated frame of the values.
void AttendGroup(const HeadCodec& keys, const HeadCodec& values, const Rows& key_rows, const Rows& value_rows,
                 double softmax_scale, std::span<const float> queries, std::span<float> out) noexcept {
  const auto d = static_cast<std::size_t>(keys.spec().head_dim),
             dv = static_cast<std::size_t>(values.spec().head_dim);
  std::array<OnlineSoftmax, kGroup> sums;
  for (OnlineSoftmax& s : sums) std::fill_n(s.value_sum.begin(), dv, 0.0);
  std::array<float, kMaxHeadDim> key_storage, value_storage;
  const std::span<float> key = std::span(key_storage).first(d), value = std::span(value_storage).first(dv);
  const std::size_t num_queries = queries.size() / d;
  for (std::size_t t = 0; t < key_rows.count(); ++t) {
    keys.DecodeRotated(key_rows.row(t), key);  // the rows have been checked
    values.DecodeRotated(value_rows.row(t), value);
    for (std::size_t j = 0; j < num_queries; ++j)
      sums[j].Add(softmax_scale * Dot(queries.subspan(j * d, d), key), value);
  }
  for (std::size_t j = 0; j < num_queries; ++j)
    for (std::size_t i = 0; i < dv; ++i)
      out[j * dv + i] = static_cast<float>(sums[j].value_sum[i] / sums[j].weight_sum);
}

RowStatus FirstNotFinite(std::span<const float> x, std::size_t channels) noexcept {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i])) return {RowError::kNotFinite, i / channels, static_cast<int>(i % channels)};
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
  // Everything is checked first, so that an error leaves the output as it was.
  for (const RowStatus& status :
       {FirstNotFinite(queries, d), keys.CheckRows(key_rows), values.CheckRows(value_rows)})
    if (!status.ok()) return status;

  std::array<float, kGroup * kMaxHeadDim> rotated;
  for (std::size_t first = 0; first < queries.size() / d; first += kGroup) {
    const std::size_t count = std::min(kGroup, queries.size() / d - first);
    const std::span<float> group = std::span(rotated).first(count * d);
    std::copy_n(queries.begin() + static_cast<std::ptrdiff_t>(first * d), count * d, group.begin());
    keys.RotateQuery(group);
    const std::span<float> group_out = out.subspan(first * dv, count * dv);
    AttendGroup(keys, values, k, v, static_cast<double>(softmax_scale), group, group_out);
    values.Unrotate(group_out);
  }
  return {};
}

}  // namespace so4cal
