// SPDX-License-Identifier: Apache-2.0
#include "calib/exact_metric_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calib/metrics.h"
#include "lib/feedback_rounding.h"
#include "lib/row_codec.h"
#include "tests/support/random_metric.h"

namespace so4cal {
namespace {

constexpr int kHeadDim = 64;
constexpr std::size_t kDim = kHeadDim;
constexpr std::size_t kTokens = 30;

struct Case {
  const char* name;
  Rounding rounding;
  ScaleRule scale;
  GridKind grid;
};

class EveryCodec : public testing::TestWithParam<Case> {
 protected:
  EveryCodec() {
    spec_ = {.head_dim = kHeadDim, .block = 32, .grid = GetParam().grid, .scale = GetParam().scale};
    table_.rounding = GetParam().rounding;
    if (table_.rounding == Rounding::kNearest) return;
    table_.damping = 0.1f;
    table_.rounds = table_.rounding == Rounding::kRefined ? 2 : 0;
  }

  HeadTransform NoStages() const {
    HeadTransform t;
    t.head_dim = kHeadDim;
    return t;
  }

  HeadTable TableAt(const std::vector<Stage>& stages) const {
    HeadTable t = table_;
    t.transform = NoStages();
    t.transform.stages = stages;
    if (t.rounding != Rounding::kNearest) t.metric.assign(metric_.begin(), metric_.end());
    return t;
  }

  ExactMetricLoss Loss() const {
    return {{kHeadDim, ButterflyStrides(kHeadDim)}, spec_, rows_, metric_, NoStages(), table_};
  }
  HeadView View() const { return {rows_.data(), kTokens, kDim, kHeadDim}; }

  CodecSpec spec_;
  HeadTable table_;
  const std::vector<float> rows_ = Noise(kTokens * kDim, 71);
  const Metric metric_ = RandomMetric(kHeadDim, 72);
  const std::vector<Stage> stages_ = RandomStages(kHeadDim, ButterflyStrides(kHeadDim), 73);
};

// What the codec makes of the tokens with these stages; a dense f32 rotation rounds a few codes otherwise.
TEST_P(EveryCodec, ValueIsTheErrorOfTheCodec) {
  const double error = MetricError(metric_, View(), RoundTrip(spec_, TableAt(stages_), View()));
  const double energy = MetricError(metric_, View(), std::vector<float>(rows_.size()));
  EXPECT_NEAR(Loss().Evaluate(Matrices(stages_), {}), error / energy, 0.01 * error / energy);
}

// E at matrices near `at` in double with the codes found there: scales not rounded, by their rule. Refined
// scales minimize E, so their change does not count to first order: they stay.
double FrozenError(const Case& c, const std::vector<double>& u, const std::vector<double>& u_at,
                   const std::vector<float>& rows, const Metric& metric, const std::vector<float>& z_hat) {
  double error = 0, energy = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    std::vector<double> z(kDim), z_at(kDim), e(kDim);
    for (std::size_t i = 0; i < kDim; ++i)
      for (std::size_t j = 0; j < kDim; ++j) {
        z[i] += u[i * kDim + j] * static_cast<double>(rows[t * kDim + j]);
        z_at[i] += u_at[i * kDim + j] * static_cast<double>(rows[t * kDim + j]);
      }
    for (std::size_t b = 0; b < kDim; b += 32) {
      double zg = 0, zg_at = 0;
      std::size_t top = b;
      for (std::size_t i = b; i < b + 32; ++i) {
        zg += z[i] * static_cast<double>(z_hat[t * kDim + i]);
        zg_at += z_at[i] * static_cast<double>(z_hat[t * kDim + i]);
        if (std::abs(z_at[i]) > std::abs(z_at[top])) top = i;
      }
      double growth = c.scale == ScaleRule::kMse ? zg / zg_at : z[top] / z_at[top];
      if (c.rounding == Rounding::kRefined) growth = 1;
      for (std::size_t i = b; i < b + 32; ++i) {
        const double hat = growth * static_cast<double>(z_hat[t * kDim + i]);
        for (std::size_t j = 0; j < kDim; ++j) e[j] += u[i * kDim + j] * hat;
      }
    }
    for (std::size_t i = 0; i < kDim; ++i) e[i] -= static_cast<double>(rows[t * kDim + i]);
    for (std::size_t i = 0; i < kDim; ++i)
      for (std::size_t j = 0; j < kDim; ++j) {
        error += e[i] * metric[i * kDim + j] * e[j];
        energy += static_cast<double>(rows[t * kDim + i]) * metric[i * kDim + j] *
                  static_cast<double>(rows[t * kDim + j]);
      }
  }
  return error / energy;
}

// 2 %: the loss has scales in fp16 (5e-4) and sums in f32, and under `mse` codes chosen after the scale.
TEST_P(EveryCodec, GradientAgreesWithCentralDifferencesAtFrozenCodes) {
  const std::vector<double> at = Matrices(stages_);
  std::vector<double> gradient(at.size());
  ExactMetricLoss loss = Loss();
  loss.Evaluate(at, gradient);

  DenseStages product({kHeadDim, ButterflyStrides(kHeadDim)});
  const auto dense = [&](const std::vector<double>& m) {
    const RowMajorMatrix& u = product.Multiply(m);
    return std::vector<double>(u.data(), u.data() + u.size());
  };
  const std::vector<double> u_at = dense(at);
  HeadTable table = TableAt({});
  table.chosen = Chosen::kDense;
  table.transform.dense = u_at;
  const HeadCodec codec(spec_, table);
  std::vector<std::uint8_t> bytes(kTokens * spec_.row_bytes());
  std::vector<float> z_hat(rows_.size());
  ASSERT_TRUE(codec.Encode(View(), bytes).ok());
  ASSERT_TRUE(codec.DecodeRotated(bytes, z_hat).ok());

  double squared = 0, total = 0;
  for (std::size_t i = 0; i < at.size(); i += 37) {
    auto above = at, below = at;
    above[i] += 1e-4;
    below[i] -= 1e-4;
    const double difference = (FrozenError(GetParam(), dense(above), u_at, rows_, metric_, z_hat) -
                               FrozenError(GetParam(), dense(below), u_at, rows_, metric_, z_hat)) /
                              2e-4;
    squared += (gradient[i] - difference) * (gradient[i] - difference);
    total += difference * difference;
  }
  EXPECT_LT(std::sqrt(squared / total), 0.02);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, EveryCodec,
    testing::Values(Case{"nearest_absmax", Rounding::kNearest, ScaleRule::kAbsmax, GridKind::kSymmetric},
                    Case{"nearest_absmax_full", Rounding::kNearest, ScaleRule::kAbsmax, GridKind::kFull},
                    Case{"nearest_mse", Rounding::kNearest, ScaleRule::kMse, GridKind::kLloyd},
                    Case{"feedback_mse", Rounding::kFeedback, ScaleRule::kMse, GridKind::kLloyd},
                    Case{"refined_mse", Rounding::kRefined, ScaleRule::kMse, GridKind::kLloyd}),
    [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace so4cal
