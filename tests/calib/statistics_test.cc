// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

HeadView View(const std::vector<float>& values, int channels) {
  const auto c = static_cast<std::size_t>(channels);
  return {values.data(), values.size() / c, c, channels};
}

// By hand: tokens (1, 2) and (3, -2). Squares 1, 4, 9, 4; fourth powers 1, 16, 81, 16.
TEST(StatisticsTest, TwoTokensByHand) {
  const std::vector<float> x = {1, 2, 3, -2};
  const HeadStatistics s = MeasureStatistics(View(x, 2));
  EXPECT_EQ(s.max_abs, 3);
  EXPECT_DOUBLE_EQ(s.rms, std::sqrt(18.0 / 4));
  EXPECT_DOUBLE_EQ(s.kurtosis, (114.0 / 4) / (4.5 * 4.5));
  EXPECT_DOUBLE_EQ(s.mean_energy_share, (2.0 * 2.0) / (18.0 / 2));  // means (2, 0)
  EXPECT_FALSE(s.constant);
}

TEST(StatisticsTest, ConstantHeadIsAllMean) {
  const std::vector<float> x = {1, -2, 3, 1, -2, 3, 1, -2, 3};
  const HeadStatistics s = MeasureStatistics(View(x, 3));
  EXPECT_TRUE(s.constant);
  EXPECT_DOUBLE_EQ(s.mean_energy_share, 1);
}

TEST(StatisticsTest, AllZeroHeadHasNoFigures) {
  const std::vector<float> x(24, 0.0F);
  const HeadStatistics s = MeasureStatistics(View(x, 8));
  EXPECT_TRUE(s.constant);
  EXPECT_EQ(s.max_abs, 0);
  EXPECT_EQ(s.kurtosis, 0);
  EXPECT_EQ(s.mean_energy_share, 0);
  EXPECT_THAT(s.outlier_channels, IsEmpty());
  EXPECT_THAT(s.sink_tokens, IsEmpty());
}

TEST(StatisticsTest, OneTokenIsConstant) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const HeadStatistics s = MeasureStatistics(View(x, 8));
  EXPECT_TRUE(s.constant);
  EXPECT_THAT(s.sink_tokens, IsEmpty());
}

// Seed 1. 4,000 x 16 normal values: the kurtosis has a standard deviation of sqrt(24 / 64000) = .02 about 3;
// five of them. The mean's share is about 1 / 4000.
TEST(StatisticsTest, NormalValuesHaveKurtosisThreeAndNoOutliers) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> x(4000 * 16);
  for (float& v : x) v = normal(random);
  const HeadStatistics s = MeasureStatistics(View(x, 16));
  EXPECT_NEAR(s.kurtosis, 3, 0.1);
  EXPECT_NEAR(s.rms, 2, 0.05);
  EXPECT_LT(s.mean_energy_share, 0.001);
  EXPECT_THAT(s.outlier_channels, IsEmpty());
  EXPECT_THAT(s.sink_tokens, IsEmpty());
}

// Values of +-1 but for one channel of +-5.2 (above five times the median RMS), one of +-4.8 (below), and
// tokens .1 (too small), 3.5 (too large) and 2.5 times (still within a factor of 3) as long as the others.
TEST(StatisticsTest, NamesOutlierChannelsAndSinkTokens) {
  const std::size_t tokens = 4000, channels = 64;
  std::vector<float> x(tokens * channels);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t c = 0; c < channels; ++c) {
      const float size = c == 7 ? 5.2F : c == 9 ? 4.8F : 1.0F;
      x[t * channels + c] = (t * 31 + c * 17) % 2 == 0 ? size : -size;
    }
  for (std::size_t c = 0; c < channels; ++c) {
    x[5 * channels + c] *= 0.1F;
    x[6 * channels + c] *= 3.5F;
    x[8 * channels + c] *= 2.5F;
  }
  const HeadStatistics s = MeasureStatistics(View(x, 64));
  EXPECT_THAT(s.outlier_channels, ElementsAre(7));
  EXPECT_THAT(s.sink_tokens, ElementsAre(5, 6));
}

// A head inside a larger array: rows are token_stride apart.
TEST(StatisticsTest, ReadsWithStride) {
  const std::vector<float> packed = {1, 2, 3, -2}, strided = {1, 2, 99, 3, -2, 99};
  const HeadStatistics a = MeasureStatistics(View(packed, 2));
  const HeadStatistics b = MeasureStatistics({strided.data(), 2, 3, 2});
  EXPECT_EQ(a.max_abs, b.max_abs);
  EXPECT_EQ(a.kurtosis, b.kurtosis);
}

}  // namespace
}  // namespace so4cal
