// SPDX-License-Identifier: Apache-2.0
#include "calib/gaussian_limit.h"

#include <gtest/gtest.h>

namespace so4cal {
namespace {

// The figures of calib/MATH.md section 2 (independent simulation with the best scale, 40,000 blocks; m = 32):
// the `mse` scale is within 3 per cent of the best one.
TEST(GaussianLimit, PublishedFigures) {
  const auto limit = [](GridKind grid, ScaleRule scale) {
    return GaussianLimit({.head_dim = 64, .bits = 3, .block = 32, .grid = grid, .scale = scale});
  };
  EXPECT_NEAR(limit(GridKind::kSymmetric, ScaleRule::kMse) / 0.0379, 1, 0.03);
  EXPECT_NEAR(limit(GridKind::kFull, ScaleRule::kMse) / 0.0264, 1, 0.03);
  EXPECT_NEAR(limit(GridKind::kLloyd, ScaleRule::kMse) / 0.0256, 1, 0.03);
  EXPECT_NEAR(limit(GridKind::kSymmetric, ScaleRule::kAbsmax) / 0.0511, 1, 0.03);
}

TEST(GaussianLimit, LargerBlocksCostAccuracy) {
  double last = 0;
  for (const int block : {8, 16, 32, 64, 128}) {
    const double limit = GaussianLimit({.head_dim = 128, .bits = 3, .block = block});
    EXPECT_GT(limit, last) << block;
    last = limit;
  }
}

}  // namespace
}  // namespace so4cal
