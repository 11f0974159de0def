// SPDX-License-Identifier: Apache-2.0
#include "lib/engine_rotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/error.h"
#include "tests/reference/transform_matrix.h"

namespace so4cal {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;
using Kind = EngineRotation::Kind;

constexpr double kTight = 1e-15;  // entries are +-1/sqrt(n), rounded once or twice

auto Near(const std::vector<double>& expected) { return Pointwise(DoubleNear(kTight), expected); }

TEST(EngineRotation, ByHand) {
  const double r = std::sqrt(0.5);
  EXPECT_EQ(EngineRotationMatrix({}, 2), (std::vector<double>{1, 0, 0, 1}));
  EXPECT_THAT(EngineRotationMatrix({Kind::kHadamard}, 2), Near({r, r, r, -r}));
  // H D(s1): s1 scales columns, which see the value first. D(s2) H D(s1): s2 scales rows.
  EXPECT_THAT(EngineRotationMatrix({Kind::kSigns, 0, {1, -1}}, 2), Near({r, -r, r, r}));
  EXPECT_THAT(EngineRotationMatrix({Kind::kSigns, 0, {1, -1, -1, 1}}, 2), Near({-r, r, r, r}));
  EXPECT_THAT(EngineRotationMatrix({Kind::kHadamard, 2}, 4),
              Near({r, r, 0, 0, r, -r, 0, 0, 0, 0, r, r, 0, 0, r, -r}));
}

// The transform that tables call Hadamard: blocks of the largest power of two that divides the head size.
TEST(EngineRotation, HadamardIsThatOfTheTables) {
  for (const int n : {8, 48, 64, 80, 96, 128})
    EXPECT_THAT(EngineRotationMatrix({Kind::kHadamard}, n),
                Pointwise(DoubleNear(kTight), reference::Hadamard(static_cast<std::size_t>(n))));
}

TEST(EngineRotation, RefusesWhatDoesNotFit) {
  EXPECT_THROW(EngineRotationMatrix({Kind::kHadamard, 64}, 96), Error);
  EXPECT_THROW(EngineRotationMatrix({Kind::kSigns, 0, {1, -1, 1}}, 2), Error);
  for (const int block : {-2, 1, 3, 48})
    EXPECT_THROW(EngineRotationMatrix({Kind::kHadamard, block}, 48), UsageError);
  EXPECT_THROW(EngineRotationMatrix({Kind::kSigns}, 2), UsageError);
  EXPECT_THROW(EngineRotationMatrix({Kind::kSigns, 0, {1, 0}}, 2), UsageError);
}

}  // namespace
}  // namespace so4cal
