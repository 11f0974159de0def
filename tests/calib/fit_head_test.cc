// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "calib/shrink.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

constexpr int kChannels = 32;

CodecSpec Spec() {
  return {.head_dim = kChannels,
          .bits = 3,
          .block = 32,
          .grid = GridKind::kSymmetric,
          .scale = ScaleRule::kAbsmax};
}

// x = B^-1 z for every row z.
std::vector<float> Unrotated(const std::vector<Stage>& stages, std::vector<double> rows) {
  HeadTransform t;
  t.head_dim = kChannels;
  t.stages = stages;
  std::vector<float> out;
  std::vector<double> x(kChannels);
  for (std::size_t i = 0; i < rows.size(); i += kChannels) {
    InverseExact(t, std::span(rows).subspan(i, kChannels), x);
    out.insert(out.end(), x.begin(), x.end());
  }
  return out;
}

// Largest difference between R and the nearest signed permutation of `planted`: each fitted row is compared
// with the planted row (up to sign) that it is closest to, since the loss can't tell those apart.
double DistanceUpToSignedPermutation(const So4& planted, const So4& fitted) {
  const Matrix4 p = ToMatrix(planted), f = ToMatrix(fitted);
  double worst = 0;
  for (std::size_t r = 0; r < 4; ++r) {
    double best = 10;
    for (std::size_t q = 0; q < 4; ++q)
      for (const double sign : {1.0, -1.0}) {
        double d = 0;
        for (std::size_t k = 0; k < 4; ++k) d = std::max(d, std::abs(f[4 * r + k] - sign * p[4 * q + k]));
        best = std::min(best, d);
      }
    worst = std::max(worst, best);
  }
  return worst;
}

// A start near the plant: a fifth of the way to another rotation.
std::vector<Stage> Near(const std::vector<Stage>& planted, unsigned seed) {
  const std::vector<int> strides = {1};
  return Shrink(planted, RandomStages(kChannels, strides, seed), 0.05);
}

void ExpectRecovered(LossKind kind, const std::vector<double>& rows_in_planted_frame) {
  const std::vector<int> strides = {1};
  const std::vector<Stage> planted = RandomStages(kChannels, strides, 31);
  const std::vector<float> rows = Unrotated(planted, rows_in_planted_frame);
  TokenLoss<double> loss({kChannels, strides}, kind, Spec(), rows, kChannels, 0);
  const StagesFit fit = FitStages(loss, Family::kSo4, Near(planted, 32), 500);
  for (std::size_t i = 0; i < planted[0].blocks.size(); ++i)
    EXPECT_LT(DistanceUpToSignedPermutation(planted[0].blocks[i], fit.stages[0].blocks[i]), 1e-3)
        << "block " << i;
}

// Data on the levels of the planted frame: the exact loss is 0 there.
TEST(FitStages, ExactLossRecoversAPlantedRotation) {
  std::mt19937 rng(33);
  std::uniform_int_distribution<int> level(-3, 3);
  std::vector<double> rows;
  for (int t = 0; t < 400; ++t)
    for (int c = 0; c < kChannels; ++c) rows.push_back(c == t % kChannels ? 3 : level(rng));
  ExpectRecovered(LossKind::kExact, rows);
}

// Vectors of signs have the smallest largest coordinate for their energy: the expected loss is least there.
TEST(FitStages, ExpectedLossRecoversAPlantedRotation) {
  std::mt19937 rng(34);
  std::vector<double> rows;
  for (int i = 0; i < 400 * kChannels; ++i) rows.push_back(rng() % 2 == 0 ? 1 : -1);
  ExpectRecovered(LossKind::kExpected, rows);
}

TEST(FitStages, NeverEndsAboveItsStart) {
  const std::vector<float> rows = Noise(50 * kChannels, 35);
  for (const Family family : {Family::kSo4, Family::kLeft, Family::kPlanar}) {
    const std::vector<int> strides = {1};
    TokenLoss<float> loss({kChannels, strides}, LossKind::kExact, Spec(), rows, kChannels, 0);
    const StagesFit fit = FitStages(loss, family, IdentityStages(kChannels, strides), 30);
    EXPECT_LT(fit.final_loss, fit.initial_loss);
    EXPECT_GT(fit.iterations, 0);
  }
}

TEST(FitStages, MoreFreedomFitsBetter) {
  const std::vector<float> rows = Noise(200 * kChannels, 36);
  const std::vector<int> strides = {1};
  const auto fitted = [&](Family family) {
    TokenLoss<float> loss({kChannels, strides}, LossKind::kExpected, Spec(), rows, kChannels, 0);
    return FitStages(loss, family, IdentityStages(kChannels, strides), 200).final_loss;
  };
  EXPECT_LT(fitted(Family::kSo4), fitted(Family::kLeft));
  EXPECT_LT(fitted(Family::kLeft), fitted(Family::kPlanar));
}

TEST(FitStages, TheSameTwice) {
  const std::vector<float> rows = Noise(100 * kChannels, 37);
  const std::vector<int> strides = ButterflyStrides(kChannels);
  const auto fitted = [&] {
    TokenLoss<float> loss({kChannels, strides}, LossKind::kExpected, Spec(), rows, kChannels, 0);
    return FitStages(loss, Family::kButterfly, HadamardStages(kChannels), 20).stages;
  };
  EXPECT_EQ(fitted(), fitted());
}

}  // namespace
}  // namespace so4cal
