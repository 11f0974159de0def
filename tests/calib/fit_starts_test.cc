// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_starts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace so4cal {
namespace {

TEST(SeededSigns, AreSignsThatDependOnSeedAndIndexOnly) {
  const std::vector<std::int8_t> signs = SeededSigns(128, 7, 1);
  EXPECT_EQ(signs.size(), 128u);
  for (const int s : signs) EXPECT_EQ(std::abs(s), 1);
  EXPECT_EQ(signs, SeededSigns(128, 7, 1));
  EXPECT_NE(signs, SeededSigns(128, 7, 2));
  EXPECT_NE(signs, SeededSigns(128, 8, 1));
  const auto minus = std::ranges::count(signs, std::int8_t{-1});
  EXPECT_TRUE(minus > 40 && minus < 88) << minus;  // 64 +- 4 standard deviations of 128 coins
}

class StartsOfEveryFamily : public testing::TestWithParam<Family> {};

TEST_P(StartsOfEveryFamily, PerturbedStagesStayInTheFamilyAndMove) {
  constexpr int kStride[] = {1};
  const std::vector<Stage> start =
      GetParam() == Family::kButterfly ? HadamardStages(64) : IdentityStages(64, kStride);
  const std::vector<Stage> moved = PerturbedStages(GetParam(), start, 3, 1);
  EXPECT_EQ(moved, PerturbedStages(GetParam(), start, 3, 1));
  EXPECT_NE(moved, PerturbedStages(GetParam(), start, 3, 2));
  ASSERT_EQ(moved.size(), start.size());
  for (std::size_t s = 0; s < moved.size(); ++s) {
    EXPECT_EQ(moved[s].stride, start[s].stride);
    ASSERT_EQ(moved[s].blocks.size(), start[s].blocks.size());
    for (std::size_t i = 0; i < moved[s].blocks.size(); ++i) {
      const So4& b = moved[s].blocks[i];
      for (const Quat& q : {b.left, b.right})
        EXPECT_NEAR(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3], 1, 1e-12);
      EXPECT_NE(b, start[s].blocks[i]);
      const bool right_is_fixed = GetParam() == Family::kLeft;
      EXPECT_EQ(b.right == (Quat{1, 0, 0, 0}), right_is_fixed);
      if (GetParam() != Family::kPlanar) continue;
      const auto m = ToMatrix(b);
      for (const int entry : {2, 3, 6, 7, 8, 9, 12, 13})  // channels (0, 1) and (2, 3) do not mix
        EXPECT_NEAR(m[static_cast<std::size_t>(entry)], 0, 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, StartsOfEveryFamily,
                         testing::Values(Family::kButterfly, Family::kSo4, Family::kLeft, Family::kPlanar),
                         [](const auto& p) { return std::string(NameOf(Families(), p.param)); });

}  // namespace
}  // namespace so4cal
