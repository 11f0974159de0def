// SPDX-License-Identifier: Apache-2.0
#include "calib/shrink.h"

#include <gtest/gtest.h>

#include <cmath>

namespace so4cal {
namespace {

So4 LeftTurn(double half_angle) { return {{std::cos(half_angle), std::sin(half_angle), 0, 0}, {1, 0, 0, 0}}; }

std::vector<Stage> OneBlock(const So4& block) { return {{1, {block}}}; }

void ExpectNear(const So4& a, const So4& b) {
  const Matrix4 ma = ToMatrix(a), mb = ToMatrix(b);
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_NEAR(ma[i], mb[i], 1e-14);  // a few roundings of numbers below 1
}

TEST(Shrink, HalfWayIsHalfTheAngle) {
  ExpectNear(Shrink(OneBlock({}), OneBlock(LeftTurn(0.8)), 0.5)[0].blocks[0], LeftTurn(0.4));
}

TEST(Shrink, EndsAreTheEnds) {
  const So4 fitted{{0.5, 0.5, -0.5, 0.5}, {-0.1, 0.7, 0.1, 0.7}};
  ExpectNear(Shrink(OneBlock({}), OneBlock(fitted), 0)[0].blocks[0], {});
  ExpectNear(Shrink(OneBlock({}), OneBlock(fitted), 1)[0].blocks[0], fitted);
}

TEST(Shrink, TheSignOfThePairDoesNotMatter) {
  const So4 start{{0.6, 0.8, 0, 0}, {1, 0, 0, 0}};
  So4 fitted = LeftTurn(1.2), turned = fitted;
  for (double& v : turned.left) v = -v;
  for (double& v : turned.right) v = -v;
  ExpectNear(Shrink(OneBlock(start), OneBlock(fitted), 0.3)[0].blocks[0],
             Shrink(OneBlock(start), OneBlock(turned), 0.3)[0].blocks[0]);
}

TEST(Shrink, TakesTheLongWayWhenOnlyThatLeadsThere) {  // (1, q) to (1, -q'): not to (1, q')
  const So4 start, fitted{{1, 0, 0, 0}, {-0.6, 0.8, 0, 0}};
  const Matrix4 close = ToMatrix(Shrink(OneBlock(start), OneBlock(fitted), 1 - 1e-9)[0].blocks[0]);
  const Matrix4 end = ToMatrix(fitted);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(close[i], end[i], 1e-8);  // an angle of at most pi * 1e-9
  ExpectNear(Shrink(OneBlock(start), OneBlock(fitted), 1)[0].blocks[0], fitted);
}

}  // namespace
}  // namespace so4cal
