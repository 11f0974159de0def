// SPDX-License-Identifier: Apache-2.0
#include "calib/metric_loss.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "calib/dense_stages.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using Matrix = RowMajorMatrix;

// What each channel's cost under Mz is, and how it changes with Mz.
struct ChannelCosts {
  Eigen::VectorXd cost;  // tr part (nearest) or pivot D_i (feedback) of channel i
  Matrix inverse;        // feedback: V'^-1 of Mz = V' V'^T, V' upper triangular; empty for nearest
};

ChannelCosts NearestCosts(const Matrix& mz) { return {mz.diagonal(), {}}; }

ChannelCosts FeedbackCosts(const Matrix& mz, double added_diagonal) {
  const Eigen::Index d = mz.rows();
  Matrix reversed = mz.reverse();  // both rows and columns: its lower factor is V' turned around
  reversed.diagonal().array() += added_diagonal;
  const Eigen::LLT<Matrix> llt(reversed);
  Matrix inverse = Matrix::Identity(d, d);
  llt.matrixL().solveInPlace(inverse);
  ChannelCosts c;
  c.cost = Matrix(llt.matrixL()).diagonal().reverse().array().square();
  if (llt.info() != Eigen::Success) c.cost.setConstant(std::nan(""));  // the line search steps back
  c.inverse = inverse.reverse();
  return c;
}

// dE/dMz for E = sum_i weight_i cost_i: diag(weight), or sum_i weight_i p_i p_i^T with p_i the rows of V^-1.
Matrix MetricGradient(const ChannelCosts& costs, const Eigen::VectorXd& weight) {
  if (costs.inverse.size() == 0) return weight.asDiagonal();
  const Eigen::VectorXd scaled = weight.array() * costs.cost.array();
  return costs.inverse.transpose() * scaled.asDiagonal() * costs.inverse;
}

}  // namespace

struct MetricLoss::Impl {
  TokenLoss<float> tokens;
  DenseStages stages;
  Matrix metric;  // in the frame before the stages
  Rounding rounding;
  double added_diagonal;
  int block;
  double num_tokens;
  double energy;  // mean of y^T M y
};

MetricLoss::MetricLoss(const StageShape& shape, const CodecSpec& codec, std::span<const float> rows,
                       const Metric& metric, const HeadTransform& before_stages, Rounding rounding,
                       double damping)
    : RotationLoss(shape) {
  SO4CAL_CHECK(codec.head_dim == shape.channels);
  const auto d = static_cast<std::size_t>(shape.channels);
  const Matrix rotated = MetricBeforeStages(metric, before_stages);
  impl_.reset(new Impl{
      .tokens = {shape, LossKind::kExpected, codec, rows, d, 0},
      .stages = DenseStages(shape),
      .metric = rotated,
      .rounding = rounding,
      .added_diagonal = damping * rotated.trace() / static_cast<double>(d),
      .block = codec.block,
      .num_tokens = static_cast<double>(rows.size() / d),
      .energy = EnergyUnder(rotated, rows) * static_cast<double>(d) / static_cast<double>(rows.size())});
}

MetricLoss::~MetricLoss() = default;

double MetricLoss::Evaluate(std::span<const double> matrices, std::span<double> gradient) {
  const Eigen::Index d = shape().channels;
  const Matrix& u = impl_->stages.Multiply(matrices);
  const Matrix um = u * impl_->metric;
  const Matrix mz = um * u.transpose();
  const ChannelCosts costs =
      impl_->rounding == Rounding::kNearest ? NearestCosts(mz) : FeedbackCosts(mz, impl_->added_diagonal);

  // sum_b S_b cost_b / 12 with S_b = mean s_b^2; the token loss of block b is sum_t m s_b^2 / 12.
  const int m = impl_->block;
  const double scale = 1 / (m * impl_->num_tokens * impl_->energy);
  std::vector<double> block_costs(static_cast<std::size_t>(d / m));
  for (Eigen::Index i = 0; i < d; ++i) block_costs[static_cast<std::size_t>(i / m)] += scale * costs.cost[i];
  const std::span<const double> sums = impl_->tokens.EvaluateWeighted(matrices, gradient, block_costs);
  double loss = 0;
  for (std::size_t b = 0; b < sums.size(); ++b) loss += sums[b] * block_costs[b];
  if (gradient.empty()) return loss;

  Eigen::VectorXd weight(d);
  for (Eigen::Index i = 0; i < d; ++i) weight[i] = scale * sums[static_cast<std::size_t>(i / m)];
  Matrix g = 2 * MetricGradient(costs, weight) * um;  // dE/dU
  impl_->stages.AddGradient(matrices, g, gradient);
  return loss;
}

}  // namespace so4cal
