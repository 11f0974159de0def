// SPDX-License-Identifier: Apache-2.0
#include "lib/grids.h"

#include <gmock/gmock.h>

#include <cmath>

namespace so4cal {
namespace {

using testing::ElementsAre;

void ForEachGrid(auto body) {
  for (const auto& row : GridKinds())
    for (const int bits : {2, 3, 4}) {
      SCOPED_TRACE(std::string(row.name) + " " + std::to_string(bits));
      body(GridFor(row.value, bits));
    }
}

TEST(Grids, LevelsAscendAndFillTheCodes) {
  ForEachGrid([](const Grid& g) {
    const std::size_t all = std::size_t{1} << g.bits;
    EXPECT_EQ(g.levels.size(), g.kind == GridKind::kSymmetric ? all - 1 : all);
    ASSERT_EQ(g.midpoints.size(), g.levels.size() - 1);
    for (std::size_t i = 0; i + 1 < g.levels.size(); ++i) {
      EXPECT_LT(g.levels[i], g.levels[i + 1]);
      // Written as decimal constants: within one rounding of the mean of the neighbours.
      EXPECT_NEAR(g.midpoints[i],
                  (static_cast<double>(g.levels[i]) + static_cast<double>(g.levels[i + 1])) / 2, 3e-7);
    }
  });
}

TEST(Grids, TopIsTheLargestMagnitudeAndZeroCodeIsNearestZero) {
  ForEachGrid([](const Grid& g) {
    EXPECT_EQ(g.top, std::max(std::abs(g.levels.front()), std::abs(g.levels.back())));
    std::size_t nearest = 0;
    for (std::size_t i = 0; i < g.levels.size(); ++i)
      if (std::abs(g.levels[i]) <= std::abs(g.levels[nearest])) nearest = i;
    EXPECT_EQ(g.zero_code, nearest);
  });
}

TEST(Grids, ThirteenAscendingRungsAroundTheAbsmaxScale) {
  ForEachGrid([](const Grid& g) {
    ASSERT_EQ(g.mse_ratios.size(), 13u);
    for (std::size_t i = 0; i + 1 < 13; ++i) EXPECT_LT(g.mse_ratios[i], g.mse_ratios[i + 1]);
    EXPECT_GE(g.mse_ratios.front(), 0.25f);
    EXPECT_LE(g.mse_ratios.back(), 1.3f);  // HeadCodec's bound on scales counts on it
  });
}

TEST(Grids, FrozenExamples) {
  EXPECT_THAT(GridFor(GridKind::kSymmetric, 3).levels, ElementsAre(-3, -2, -1, 0, 1, 2, 3));
  EXPECT_THAT(GridFor(GridKind::kFull, 2).levels, ElementsAre(-2, -1, 0, 1));
  EXPECT_THAT(GridFor(GridKind::kFull, 3).levels, ElementsAre(-4, -3, -2, -1, 0, 1, 2, 3));
  EXPECT_THAT(GridFor(GridKind::kLloyd, 3).mse_ratios,
              ElementsAre(.60f, .65f, .70f, .75f, .80f, .85f, .90f, .95f, 1.00f, 1.05f, 1.10f, 1.15f, 1.20f));
  EXPECT_EQ(GridFor(GridKind::kSymmetric, 3).mse_ratios[0], .52f);
}

// Lloyd-Max: every level is the centroid of its cell of N(0,1). Integrated by the closed form
// (phi(a) - phi(b)) / (Phi(b) - Phi(a)); the iteration behind the frozen
// constants stopped 2e-5 from its fixed point (which costs nothing: the distortion is stationary there).
TEST(Grids, LloydLevelsAreCentroids) {
  const auto phi = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); };
  const auto cumulative = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  for (const int bits : {2, 3, 4}) {
    const Grid& g = GridFor(GridKind::kLloyd, bits);
    for (std::size_t i = 0; i < g.levels.size(); ++i) {
      const double a = i == 0 ? -40 : g.midpoints[i - 1];
      const double b = i + 1 == g.levels.size() ? 40 : g.midpoints[i];
      EXPECT_NEAR(g.levels[i], (phi(a) - phi(b)) / (cumulative(b) - cumulative(a)), 3e-5);
    }
  }
}

}  // namespace
}  // namespace so4cal
