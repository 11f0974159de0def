// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/activations.h"
#include "lib/rotation_table.h"

namespace so4cal {

// Metrics of calib/MATH.md section 5: symmetric positive semi-definite d x d, row-major, raw frame.
using Metric = std::vector<double>;

// KV head that query head `query_head` reads: floor(j Hkv / Hq).
constexpr int KvHeadOf(int query_head, int num_query_heads, int num_kv_heads) {
  return query_head * num_kv_heads / num_query_heads;
}

// Keys: C_Q = E[q q^T] over the query rows of the head's group whose token is in `tokens`, in double.
// queries: [Hq][rows][D]; positions: the token of each row. Empty when no row is in `tokens`.
Metric QueryMoment(const Activations& queries, std::span<const std::uint64_t> positions, int kv_head,
                   int num_kv_heads, std::span<const TokenRange> tokens);

// Values: G = sum over the group of W_O,j^T W_O,j. w_o: row-major [rows][num_query_heads * channels].
Metric OutputMetric(std::span<const float> w_o, std::size_t rows, int num_query_heads, int channels,
                    int kv_head, int num_kv_heads);

// sum over rows of e^T M e with e = x_hat - x, [token][channel] both.
double MetricError(const Metric& metric, const HeadView& x, std::span<const float> x_hat);

}  // namespace so4cal
