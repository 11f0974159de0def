// SPDX-License-Identifier: Apache-2.0
#include "calib/shared_loss.h"

#include <gtest/gtest.h>

#include "tests/support/random_metric.h"

namespace so4cal {
namespace {

TEST(SharedLoss, IsTheMeanOfLossesAndGradients) {
  const StageShape shape{64, {1}};
  const CodecSpec spec{.head_dim = 64, .block = 32};
  const auto loss_of = [&](unsigned seed) {
    std::vector<float> rows = Noise(50 * 64, seed);
    for (float& v : rows) v *= static_cast<float>(seed);  // of different loudness
    return std::make_unique<TokenLoss<float>>(shape, LossKind::kExpected, spec, rows, 64, 0);
  };
  std::vector<std::unique_ptr<RotationLoss>> losses;
  losses.push_back(loss_of(1));
  losses.push_back(loss_of(9));
  SharedLoss shared(std::move(losses));

  constexpr int kStride[] = {1};
  const std::vector<double> at = Matrices(RandomStages(64, kStride, 5));
  std::vector<double> gradient(at.size()), first(at.size()), second(at.size());
  const double value = shared.Evaluate(at, gradient);
  const double mean = (loss_of(1)->Evaluate(at, first) + loss_of(9)->Evaluate(at, second)) / 2;
  EXPECT_DOUBLE_EQ(value, mean);
  EXPECT_DOUBLE_EQ(shared.Evaluate(at, {}), mean);
  for (std::size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(gradient[i], (first[i] + second[i]) / 2, 1e-15);
}

}  // namespace
}  // namespace so4cal
