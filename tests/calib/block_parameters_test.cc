// SPDX-License-Identifier: Apache-2.0
#include "calib/block_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace so4cal {
namespace {

class BlocksOfEveryFamily : public testing::TestWithParam<Family> {};

std::vector<double> RandomParameters(Family family, int num_blocks, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> gauss;
  std::vector<double> p(static_cast<std::size_t>(BlockParameters(family, num_blocks).num_parameters()));
  for (double& v : p) v = gauss(rng);
  if (family == Family::kPlanar) return p;  // angles
  for (std::size_t q = 0; q < p.size(); q += 4) {
    double norm = 0;
    for (std::size_t k = q; k < q + 4; ++k) norm += p[k] * p[k];
    for (std::size_t k = q; k < q + 4; ++k) p[k] /= std::sqrt(norm);
  }
  return p;
}

// f = <weights, matrices(parameters)> is a polynomial of degree 2 in the quaternions (a sine in the angles):
// central differences with step 1e-5 leave 1e-10 of truncation and 1e-11 of rounding.
TEST_P(BlocksOfEveryFamily, GradientAgreesWithCentralDifferences) {
  const int num_blocks = 3;
  const BlockParameters blocks(GetParam(), num_blocks);
  const std::vector<double> p = RandomParameters(GetParam(), num_blocks, 5);
  std::mt19937 rng(6);
  std::normal_distribution<double> gauss;
  std::vector<double> weights(16 * num_blocks), matrices(weights.size()), gradient(p.size());
  for (double& w : weights) w = gauss(rng);
  const auto f = [&](const std::vector<double>& at) {
    blocks.ToMatrices(at, matrices);
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * matrices[i];
    return sum;
  };
  blocks.ChainGradient(p, weights, gradient);
  for (std::size_t i = 0; i < p.size(); ++i) {
    auto above = p, below = p;
    above[i] += 1e-5;
    below[i] -= 1e-5;
    EXPECT_NEAR(gradient[i], (f(above) - f(below)) / 2e-5, 1e-8) << i;
  }
}

TEST_P(BlocksOfEveryFamily, BlocksAndParametersAreTheSameRotations) {
  const BlockParameters blocks(GetParam(), 4);
  const std::vector<double> p = RandomParameters(GetParam(), 4, 7);
  std::vector<double> before(64), after(64);
  blocks.ToMatrices(p, before);
  blocks.ToMatrices(blocks.FromBlocks(blocks.ToBlocks(p)), after);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(before[i], after[i], 1e-14);  // renormalized once
}

TEST_P(BlocksOfEveryFamily, IdentityIsAStart) {
  const BlockParameters blocks(GetParam(), 1);
  const So4 identity;
  std::vector<double> m(16);
  blocks.ToMatrices(blocks.FromBlocks({&identity, 1}), m);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(m[i], i % 5 == 0 ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Families, BlocksOfEveryFamily,
                         testing::Values(Family::kButterfly, Family::kSo4, Family::kLeft, Family::kPlanar),
                         [](const auto& p) { return std::string(NameOf(Families(), p.param)); });

TEST(BlockParameters, PlanarTurnsItsTwoPlanes) {  // by 90 and by -90 degrees
  const double right_angle = std::acos(0.0);
  std::vector<double> m(16);
  BlockParameters(Family::kPlanar, 1).ToMatrices(std::vector<double>{right_angle, -right_angle}, m);
  const double want[16] = {0, -1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, -1, 0};
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(m[i], want[i], 1e-15);
}

}  // namespace
}  // namespace so4cal
