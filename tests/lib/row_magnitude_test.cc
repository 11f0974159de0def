// SPDX-License-Identifier: Apache-2.0
#include "lib/row_magnitude.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/each_target.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

TEST(RowMagnitude, IsTheLargestDistanceOnEveryTarget) {
  for (const std::size_t n : {1, 7, 8, 31, 80, 128, 1024}) {
    const std::vector<float> x = Noise(n, 1), offset = Noise(n, 2);
    float plain = 0, shifted = 0;
    for (std::size_t i = 0; i < n; ++i) {
      plain = std::max(plain, std::abs(x[i]));
      shifted = std::max(shifted, std::abs(x[i] - offset[i]));
    }
    ForEachTarget([&] {
      EXPECT_EQ(RowMagnitude(x, {}), plain);
      EXPECT_EQ(RowMagnitude(x, offset), shifted);
    });
  }
}

TEST(RowMagnitude, OneValueThatIsNotFiniteShowsWhereverItIs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t at = 0; at < 40; ++at) {
      std::vector<float> x(40, 1.0f);
      x[at] = bad;
      ForEachTarget([&] { EXPECT_FALSE(std::isfinite(RowMagnitude(x, {}))) << bad << " at " << at; });
    }
}

}  // namespace
}  // namespace so4cal
