// SPDX-License-Identifier: Apache-2.0
#include "lib/fwht.h"

#include <gmock/gmock.h>

#include "tests/reference/transform_matrix.h"
#include "tests/support/each_target.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

// log2(section) butterflies of N(0,1) data before the final scaling: each rounding is at most half an ulp of
// a sum of at most sqrt(section) * 5, so after scaling the error stays below 5 * log2(section) * 2^-24.
double Tolerance(std::size_t section) { return 5 * 6e-8 * static_cast<double>(std::bit_width(section)); }

TEST(Fwht, MatchesTheDefinitionAndIsTheSameOnEveryTarget) {
  for (const std::size_t section : {4, 8, 16, 32, 64, 128, 256, 512}) {
    for (const std::size_t sections : {1, 3, 5}) {
      const std::vector<float> x = Noise(section * sections, static_cast<unsigned>(section + sections));
      const std::vector<double> h = reference::Hadamard(section);
      std::vector<float> first;
      ForEachTarget([&] {
        std::vector<float> y = x;
        Fwht(y, section);
        if (first.empty()) first = y;
        ASSERT_EQ(y, first) << "section " << section;  // bit for bit: no NaN and no -0 / +0 ambiguity here
      });
      for (std::size_t i = 0; i < x.size(); ++i) {
        double want = 0;
        for (std::size_t j = 0; j < section; ++j)
          want += h[i % section * section + j] * static_cast<double>(x[i / section * section + j]);
        ASSERT_NEAR(first[i], want, Tolerance(section)) << "section " << section << ", channel " << i;
      }
    }
  }
}

// By hand: the spectrum of a delta is flat, that of a constant is a delta; powers of four are exact.
TEST(Fwht, DeltaAndConstant) {
  std::vector<float> delta(16, 0.0f);
  delta[0] = 4;
  Fwht(delta, 16);
  EXPECT_THAT(delta, testing::Each(1.0f));
  Fwht(delta, 16);
  EXPECT_THAT(delta, testing::ElementsAre(4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace so4cal
