// SPDX-License-Identifier: Apache-2.0
#include "calib/metric_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lib/feedback_rounding.h"
#include "tests/support/random_metric.h"

namespace so4cal {
namespace {

constexpr int kHeadDim = 64;
constexpr std::size_t kSize = kHeadDim * kHeadDim;

CodecSpec Spec(int block = 32) { return {.head_dim = kHeadDim, .block = block}; }
StageShape Butterfly() { return {kHeadDim, ButterflyStrides(kHeadDim)}; }

HeadTransform NoStages() {
  HeadTransform t;
  t.head_dim = kHeadDim;
  return t;
}

Metric Identity() {
  Metric m(kSize, 0.0);
  for (std::size_t i = 0; i < kHeadDim; ++i) m[i * kHeadDim + i] = 1;
  return m;
}

class EveryRule : public testing::TestWithParam<Rounding> {};

// The token sums are f32: differences with step 1e-3 carry 1e-7 / 1e-3 of rounding and 1e-6 of truncation.
TEST_P(EveryRule, GradientAgreesWithCentralDifferences) {
  MetricLoss loss(Butterfly(), Spec(), Noise(40 * kHeadDim, 61), RandomMetric(kHeadDim, 62), NoStages(),
                  GetParam(), 0.01);
  const std::vector<double> at = Matrices(RandomStages(kHeadDim, ButterflyStrides(kHeadDim), 63));
  std::vector<double> gradient(at.size());
  loss.Evaluate(at, gradient);
  const double largest =
      std::abs(*std::ranges::max_element(gradient, {}, [](double g) { return std::abs(g); }));
  double squared = 0, total = 0;
  for (std::size_t i = 0; i < at.size(); i += 7) {
    auto above = at, below = at;
    above[i] += 1e-3;
    below[i] -= 1e-3;
    const double difference = (loss.Evaluate(above, {}) - loss.Evaluate(below, {})) / 2e-3;
    EXPECT_NEAR(gradient[i], difference, 0.05 * largest) << "entry " << i;  // a largest coordinate may change
    squared += (gradient[i] - difference) * (gradient[i] - difference);
    total += gradient[i] * gradient[i];
  }
  EXPECT_LT(std::sqrt(squared / total), 0.01);  // most entries have no such change inside the step
}

// M = I: traces and pivots are 1 per channel (1 + damping with damping), so the plain expected loss remains.
TEST_P(EveryRule, IdentityMetricIsThePlainLoss) {
  const std::vector<float> rows = Noise(100 * kHeadDim, 64);
  const double damping = 0.25;
  MetricLoss loss(Butterfly(), Spec(), rows, Identity(), NoStages(), GetParam(), damping);
  TokenLoss<float> plain(Butterfly(), LossKind::kExpected, Spec(), rows, kHeadDim, 0);
  const std::vector<double> at = Matrices(RandomStages(kHeadDim, ButterflyStrides(kHeadDim), 65));
  const double factor = GetParam() == Rounding::kNearest ? 1 : 1 + damping;
  EXPECT_NEAR(loss.Evaluate(at, {}), factor * plain.Evaluate(at, {}), 1e-6);  // f32 weights
}

// The whole formula from its parts in double: S_b from the rotated rows, costs from a plain U D U^T.
TEST_P(EveryRule, ValueIsTheFormula) {
  const std::size_t tokens = 50;
  const std::vector<float> rows = Noise(tokens * kHeadDim, 66);
  const Metric metric = RandomMetric(kHeadDim, 67);
  HeadTransform t = NoStages();
  t.stages = RandomStages(kHeadDim, ButterflyStrides(kHeadDim), 68);
  MetricLoss loss(Butterfly(), Spec(), rows, metric, NoStages(), GetParam(), 0.01);

  std::vector<double> s2(2, 0.0), z(kHeadDim);
  double energy = 0;
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::vector<double> x = Widened(std::span(rows).subspan(i * kHeadDim, kHeadDim));
    ForwardExact(t, x, z);
    for (std::size_t b = 0; b < 2; ++b) {
      double largest = 0;
      for (std::size_t c = 0; c < 32; ++c) largest = std::max(largest, std::abs(z[32 * b + c]));
      const double s = largest / static_cast<double>(GridFor(GridKind::kLloyd, 3).top);
      s2[b] += s * s / static_cast<double>(tokens);
    }
    for (std::size_t r = 0; r < kHeadDim; ++r)
      for (std::size_t c = 0; c < kHeadDim; ++c)
        energy += x[r] * metric[r * kHeadDim + c] * x[c] / static_cast<double>(tokens);
  }
  const std::vector<float> metric_f32(metric.begin(), metric.end());
  const double damping = GetParam() == Rounding::kNearest ? 0 : 0.01;
  const std::vector<double> mz = RotatedMetric(DenseMatrix(t), metric_f32, damping, kHeadDim);
  std::vector<double> costs;
  if (GetParam() == Rounding::kFeedback) costs = FactorMetric(mz, kHeadDim).pivots;
  for (std::size_t i = costs.size(); i < kHeadDim; ++i) costs.push_back(mz[i * kHeadDim + i]);
  double want = 0;
  for (std::size_t i = 0; i < kHeadDim; ++i) want += s2[i / 32] / 12 * costs[i] / energy;
  EXPECT_NEAR(loss.Evaluate(Matrices(t.stages), {}), want, 1e-5 * want);  // f32 sums and metric
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, testing::Values(Rounding::kNearest, Rounding::kFeedback),
                         [](const auto& p) { return std::string(NameOf(Roundings(), p.param)); });

}  // namespace
}  // namespace so4cal
