// SPDX-License-Identifier: Apache-2.0
#include "calib/quaternion_manifold.h"

#include <ceres/manifold_test_utils.h>
#include <gtest/gtest.h>

#include <random>

using namespace ceres;  // 2.1: the macro names its matchers unqualified

namespace so4cal {
namespace {

ceres::Vector RandomUnitQuaternions(int n, std::mt19937& rng) {
  std::normal_distribution<double> gauss;
  ceres::Vector x(4 * n);
  for (int i = 0; i < 4 * n; ++i) x[i] = gauss(rng);
  for (int i = 0; i < n; ++i) x.segment<4>(4 * i).normalize();
  return x;
}

// The laws of a manifold as Ceres tests its own. 1e-9: what its own tests ask for.
TEST(QuaternionProductManifold, KeepsTheLaws) {
  std::mt19937 rng(11);
  std::uniform_real_distribution<double> turn(-1,
                                              1);  // below pi per quaternion: Minus undoes Plus only there
  for (const int n : {1, 2, 16}) {
    const QuaternionProductManifold manifold(n);
    for (int trial = 0; trial < 20; ++trial) {
      const ceres::Vector x = RandomUnitQuaternions(n, rng), y = RandomUnitQuaternions(n, rng);
      ceres::Vector delta(3 * n);
      for (int i = 0; i < 3 * n; ++i) delta[i] = turn(rng);
      EXPECT_THAT_MANIFOLD_INVARIANTS_HOLD(manifold, x, delta, y, 1e-9);
    }
  }
}

TEST(QuaternionProductManifold, PlusKeepsUnitNorms) {
  std::mt19937 rng(12);
  const QuaternionProductManifold manifold(5);
  const ceres::Vector x = RandomUnitQuaternions(5, rng), delta = ceres::Vector::Constant(15, 0.7);
  ceres::Vector y(20);
  ASSERT_TRUE(manifold.Plus(x.data(), delta.data(), y.data()));
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(y.segment<4>(4 * i).norm(), 1, 1e-14);  // a few roundings
}

}  // namespace
}  // namespace so4cal
