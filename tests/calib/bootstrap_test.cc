// SPDX-License-Identifier: Apache-2.0
#include "calib/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/random_data.h"

namespace so4cal {
namespace {

TEST(BootstrapRatio, AConstantRatioHasNoWidth) {
  const RatioInterval r = BootstrapRatio(std::vector<double>{1, 2, 3}, std::vector<double>{2, 4, 6});
  EXPECT_EQ(r.ratio, 0.5);
  EXPECT_EQ(r.low, 0.5);
  EXPECT_EQ(r.high, 0.5);
}

// Two runs with ratios 0 and 1 of equal weight: a resample is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4.
TEST(BootstrapRatio, TwoRunsByHand) {
  const RatioInterval r = BootstrapRatio(std::vector<double>{0, 1}, std::vector<double>{1, 1});
  EXPECT_EQ(r.ratio, 0.5);
  EXPECT_EQ(r.low, 0);
  EXPECT_EQ(r.high, 1);
}

// n = 400 runs of 1 + noise of deviation .1 over 1: the ratio's deviation is .1 / sqrt(400) = .005, so the
// interval is 2 * 1.96 * .005 wide; 15 per cent for the noise of 1,000 resamples and of the sample's
// deviation.
TEST(BootstrapRatio, WidthOfManyRuns) {
  std::vector<double> above;
  for (const float v : Noise(400, 7)) above.push_back(1 + 0.1 * static_cast<double>(v));
  const RatioInterval r = BootstrapRatio(above, std::vector<double>(400, 1.0));
  EXPECT_NEAR((r.high - r.low) / (2 * 1.96 * 0.005), 1, 0.15);
  EXPECT_LT(r.low, r.ratio);
  EXPECT_LT(r.ratio, r.high);
  EXPECT_EQ(r.low, BootstrapRatio(above, std::vector<double>(400, 1.0)).low);  // same seed
}

TEST(BootstrapRatio, NothingToCompare) {
  EXPECT_TRUE(std::isnan(BootstrapRatio({}, {}).ratio));
  EXPECT_TRUE(std::isnan(BootstrapRatio(std::vector<double>{1}, std::vector<double>{0}).low));
}

}  // namespace
}  // namespace so4cal
