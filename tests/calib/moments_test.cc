// SPDX-License-Identifier: Apache-2.0
#include "calib/moments.h"

#include <gtest/gtest.h>

namespace so4cal {
namespace {

// Four query heads, two KV heads; two rows of two channels per head.
Activations Queries() { return {4, 2, 2, {1, 0, 0, 2, /**/ 3, 1, 0, 0, /**/ 5, 5, 5, 5, /**/ 7, 7, 7, 7}}; }

TEST(QueryMoment, AveragesTheGroupByHand) {  // rows (1,0), (0,2), (3,1), (0,0)
  const std::uint64_t positions[] = {10, 20};
  const TokenRange all[] = {{0, 100}};
  EXPECT_EQ(QueryMoment(Queries(), positions, 0, 2, all), (Metric{10.0 / 4, 3.0 / 4, 3.0 / 4, 5.0 / 4}));
}

TEST(QueryMoment, KeepsOnlyRowsInTheRanges) {  // rows (1,0), (3,1)
  const std::uint64_t positions[] = {10, 20};
  const TokenRange first[] = {{0, 3}, {10, 11}};
  EXPECT_EQ(QueryMoment(Queries(), positions, 0, 2, first), (Metric{5, 1.5, 1.5, 0.5}));
  const TokenRange none[] = {{30, 40}};
  EXPECT_TRUE(QueryMoment(Queries(), positions, 0, 2, none).empty());
}

TEST(OutputMetric, SumsTheGroupByHand) {  // one output row, columns 1 2 | 3 4 | 5 6 | 7 8
  const float w_o[] = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(OutputMetric(w_o, 1, 4, 2, 0, 2), (Metric{1 + 9, 2 + 12, 2 + 12, 4 + 16}));
  EXPECT_EQ(OutputMetric(w_o, 1, 4, 2, 1, 2), (Metric{25 + 49, 30 + 56, 30 + 56, 36 + 64}));
}

TEST(MetricError, ByHand) {  // e = (1, -1): 2 - 2 * 1 + 3
  const float x[] = {1, 1}, x_hat[] = {2, 0};
  EXPECT_EQ(MetricError({2, 1, 1, 3}, {x, 1, 2, 2}, x_hat), 3);
}

}  // namespace
}  // namespace so4cal
