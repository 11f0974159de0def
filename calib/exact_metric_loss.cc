// SPDX-License-Identifier: Apache-2.0
#include "calib/exact_metric_loss.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/error.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

constexpr Eigen::Index kTokensAtATime = 256;

}  // namespace

ExactMetricLoss::ExactMetricLoss(const StageShape& shape, const CodecSpec& codec, std::vector<float> rows,
                                 const Metric& metric, const HeadTransform& before_stages,
                                 const HeadTable& rounding)
    : RotationLoss(shape), codec_(codec), rows_(std::move(rows)), stages_(shape) {
  SO4CAL_CHECK(codec.head_dim == shape.channels);
  const RowMajorMatrix rotated = MetricBeforeStages(metric, before_stages);
  metric_ = rotated.cast<float>();
  energy_ = EnergyUnder(rotated, rows_);
  table_.chosen = Chosen::kDense;
  table_.transform.head_dim = codec.head_dim;
  table_.rounding = rounding.rounding;
  table_.damping = rounding.damping;
  table_.rounds = rounding.rounds;
  if (rounding.rounding != Rounding::kNearest)
    table_.metric.assign(metric_.data(), metric_.data() + metric_.size());
  bytes_.resize(static_cast<std::size_t>(kTokensAtATime) * codec.row_bytes());
}

void ExactMetricLoss::ScaleGradient(const RowMajorF& z, const RowMajorF& z_hat, RowMajorF& slope) const {
  const Eigen::Index m = codec_.block;
  for (Eigen::Index t = 0; t < z.rows(); ++t) {
    for (Eigen::Index b = 0; b < z.cols(); b += m) {
      const auto hat = z_hat.row(t).segment(b, m);
      auto block = slope.row(t).segment(b, m);  // Mz e
      const float along = hat.dot(block);       // dE/ds times s / 2
      if (codec_.scale == ScaleRule::kMse) {    // s = <z,g>/<g,g>
        const float size = hat.squaredNorm();
        block = size > 0 ? (along / size * hat).eval() : (0.0f * hat).eval();
        continue;
      }
      Eigen::Index largest = 0;  // s is proportional to it
      const float top = z.row(t).segment(b, m).cwiseAbs().maxCoeff(&largest);
      block.setZero();
      if (top > 0) block[largest] = along / z(t, b + largest);
    }
  }
}

double ExactMetricLoss::Evaluate(std::span<const double> matrices, std::span<double> gradient) {
  const Eigen::Index d = shape().channels;
  const RowMajorMatrix& dense = stages_.Multiply(matrices);
  table_.transform.dense.assign(dense.data(), dense.data() + dense.size());
  const HeadCodec codec(codec_, table_);
  const RowMajorF u = dense.cast<float>();
  RowMajorMatrix slope = RowMajorMatrix::Zero(d, d);  // dE/dU
  double loss = 0;
  const auto num_tokens = static_cast<Eigen::Index>(rows_.size()) / d;
  for (Eigen::Index first = 0; first < num_tokens; first += kTokensAtATime) {
    const Eigen::Index count = std::min(kTokensAtATime, num_tokens - first);
    const Eigen::Map<const RowMajorF> y(rows_.data() + first * d, count, d);
    const HeadView view{y.data(), static_cast<std::size_t>(count), static_cast<std::size_t>(d),
                        static_cast<int>(d)};
    const auto bytes = std::span(bytes_).first(view.num_tokens * codec_.row_bytes());
    RowMajorF z_hat(count, d);
    RowStatus status = codec.Encode(view, bytes);
    if (status.ok())
      status = codec.DecodeRotated(bytes, {z_hat.data(), static_cast<std::size_t>(z_hat.size())});
    if (!status.ok()) return std::nan("");  // the line search steps back
    const RowMajorF error = z_hat * u - y, weighted = error * metric_;
    loss += (error.cast<double>().array() * weighted.cast<double>().array()).sum();
    if (gradient.empty()) continue;
    RowMajorF product = z_hat.transpose() * weighted;
    if (table_.rounding != Rounding::kRefined) {  // refined scales minimize the error: they do not count
      RowMajorF scale_slope = weighted * u.transpose();
      ScaleGradient(y * u.transpose(), z_hat, scale_slope);
      product += scale_slope.transpose() * y;
    }
    slope += 2 / energy_ * product.cast<double>();
  }
  if (!gradient.empty()) {
    std::ranges::fill(gradient, 0.0);
    stages_.AddGradient(matrices, slope, gradient);
  }
  return loss / energy_;
}

}  // namespace so4cal
