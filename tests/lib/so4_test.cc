// SPDX-License-Identifier: Apache-2.0
#include "lib/so4.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "lib/error.h"
#include "tests/reference/so4_matrix.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

constexpr double kTight = 1e-14;  // some tens of double roundings of numbers up to 1

TEST(So4, MulFollowsHamilton) {
  const Quat i{0, 1, 0, 0}, j{0, 0, 1, 0}, k{0, 0, 0, 1};
  EXPECT_EQ(Mul(i.data(), j.data()), k);
  EXPECT_EQ(Mul(j.data(), k.data()), i);
  EXPECT_EQ(Mul(j.data(), i.data()), (Quat{0, 0, 0, -1}));
}

TEST(So4, ToMatrixIsTheProductOfLeftAndRightMatrices) {
  std::mt19937 rng(1);
  for (int n = 0; n < 100; ++n) {
    const So4 r = RandomSo4(rng);
    EXPECT_THAT(ToMatrix(r), Pointwise(DoubleNear(kTight), reference::BlockMatrix(r)));
  }
}

// By hand: a left quaternion cos + i sin turns (1, i) by the angle and (j, k) by the same angle.
TEST(So4, LeftQuaternionTurnsTwoPlanesTheSameWay) {
  const double c = std::cos(0.3), s = std::sin(0.3);
  EXPECT_THAT(ToMatrix({{c, s, 0, 0}, {1, 0, 0, 0}}),
              Pointwise(DoubleNear(kTight), Matrix4{c, -s, 0, 0, s, c, 0, 0, 0, 0, c, -s, 0, 0, s, c}));
}

TEST(So4, InverseTimesItselfIsIdentity) {
  std::mt19937 rng(2);
  const So4 r = RandomSo4(rng);
  EXPECT_THAT(reference::Product(ToMatrix(Inverse(r)), ToMatrix(r)),
              Pointwise(DoubleNear(kTight), Matrix4{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
}

TEST(So4, CanonicalMakesTheFirstLargeCoefficientPositive) {
  const So4 negative{{-1e-7, -0.6, 0.8, -0.0}, {-0.0, 1, 0, 0}};  // -1e-7 is below the threshold of 1e-6
  const So4 canonical = Canonical(negative);
  EXPECT_EQ(canonical, (So4{{1e-7, 0.6, -0.8, 0}, {0, -1, 0, 0}}));
  EXPECT_FALSE(std::signbit(canonical.left[3]));
  EXPECT_FALSE(std::signbit(canonical.right[0]));
  EXPECT_EQ(Canonical(canonical), canonical);
}

TEST(So4, NearestRotationOfARotationIsItself) {
  std::mt19937 rng(3);
  for (int n = 0; n < 200; ++n) {
    const So4 r = RandomSo4(rng);
    const So4 back = NearestRotation(ToMatrix(r));
    EXPECT_THAT(back.left, Pointwise(DoubleNear(kTight), r.left));
    EXPECT_THAT(back.right, Pointwise(DoubleNear(kTight), r.right));
  }
}

TEST(So4, NearestRotationAtTheAngleOfPi) {
  const Matrix4 minus_identity{-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1};
  const So4 r = NearestRotation(minus_identity);
  EXPECT_EQ(r.left[0], 1);
  EXPECT_EQ(r.right[0], -1);
  EXPECT_THAT(ToMatrix(r), Pointwise(DoubleNear(kTight), minus_identity));
}

// Optimality: no rotation close by is nearer to a noisy matrix.
TEST(So4, NearestRotationBeatsItsNeighbours) {
  std::mt19937 rng(4);
  std::normal_distribution<double> gauss;
  Matrix4 m = ToMatrix(RandomSo4(rng));
  for (double& v : m) v += 0.2 * gauss(rng);
  const auto distance = [&](const So4& r) {
    const Matrix4 candidate = ToMatrix(r);
    double sum = 0;
    for (std::size_t i = 0; i < 16; ++i) sum += (candidate[i] - m[i]) * (candidate[i] - m[i]);
    return sum;
  };
  const So4 best = NearestRotation(m);
  for (int n = 0; n < 200; ++n) {
    So4 other = best;
    for (Quat* q : {&other.left, &other.right}) {
      const Quat step{1, 0.01 * gauss(rng), 0.01 * gauss(rng), 0.01 * gauss(rng)};
      *q = Mul(step.data(), q->data());
      const double norm = std::hypot(std::hypot((*q)[0], (*q)[1]), std::hypot((*q)[2], (*q)[3]));
      for (double& c : *q) c /= norm;
    }
    EXPECT_GT(distance(other), distance(best));
  }
}

TEST(So4, NearestRotationRefusesWhatHasNone) {
  Matrix4 zero{};
  EXPECT_THROW(NearestRotation(zero), Error);
  Matrix4 nan = ToMatrix({});
  nan[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(NearestRotation(nan), Error);
  nan[7] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(NearestRotation(nan), Error);
  // Magnitudes whose squares overflow or vanish are no reason to refuse.
  for (const double factor : {1e-200, 1e200}) {
    Matrix4 scaled = ToMatrix({});
    for (double& v : scaled) v *= factor;
    EXPECT_EQ(NearestRotation(scaled), So4{});
  }
}

}  // namespace
}  // namespace so4cal
