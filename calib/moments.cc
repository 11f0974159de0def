// SPDX-License-Identifier: Apache-2.0
#include "calib/moments.h"

#include <Eigen/Core>
#include <algorithm>

namespace so4cal {
namespace {

using RowMajorF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMajorD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

bool Contains(std::span<const TokenRange> ranges, std::uint64_t token) {
  return std::ranges::any_of(ranges, [&](const TokenRange& r) { return r.begin <= token && token < r.end; });
}

Metric ToMetric(const RowMajorD& m) { return {m.data(), m.data() + m.size()}; }

}  // namespace

Metric QueryMoment(const Activations& queries, std::span<const std::uint64_t> positions, int kv_head,
                   int num_kv_heads, std::span<const TokenRange> tokens) {
  const Eigen::Index d = queries.channels;
  RowMajorD moment = RowMajorD::Zero(d, d);
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (Contains(tokens, positions[i])) rows.push_back(i);
  std::size_t count = 0;
  for (int j = 0; j < queries.num_heads; ++j) {
    if (KvHeadOf(j, queries.num_heads, num_kv_heads) != kv_head) continue;
    RowMajorD q(static_cast<Eigen::Index>(rows.size()), d);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = queries.head(j).row(rows[i]);
      for (Eigen::Index c = 0; c < d; ++c)
        q(static_cast<Eigen::Index>(i), c) = row[static_cast<std::size_t>(c)];
    }
    moment.noalias() += q.transpose() * q;
    count += rows.size();
  }
  if (count == 0) return {};
  moment /= static_cast<double>(count);
  return ToMetric(moment);
}

Metric OutputMetric(std::span<const float> w_o, std::size_t rows, int num_query_heads, int channels,
                    int kv_head, int num_kv_heads) {
  const Eigen::Map<const RowMajorF> w(w_o.data(), static_cast<Eigen::Index>(rows),
                                      static_cast<Eigen::Index>(num_query_heads) * channels);
  RowMajorD gram = RowMajorD::Zero(channels, channels);
  for (int j = 0; j < num_query_heads; ++j) {
    if (KvHeadOf(j, num_query_heads, num_kv_heads) != kv_head) continue;
    const RowMajorD columns = w.middleCols(static_cast<Eigen::Index>(j) * channels, channels).cast<double>();
    gram.noalias() += columns.transpose() * columns;
  }
  return ToMetric(gram);
}

double MetricError(const Metric& metric, const HeadView& x, std::span<const float> x_hat) {
  const auto d = static_cast<Eigen::Index>(x.channels);
  const Eigen::Map<const RowMajorD> m(metric.data(), d, d);
  double sum = 0;
  Eigen::VectorXd e(d);
  for (std::size_t t = 0; t < x.num_tokens; ++t) {
    const auto row = x.row(t);
    for (std::size_t c = 0; c < row.size(); ++c)
      e[static_cast<Eigen::Index>(c)] =
          static_cast<double>(x_hat[t * row.size() + c]) - static_cast<double>(row[c]);
    sum += e.dot(m * e);
  }
  return sum;
}

}  // namespace so4cal
