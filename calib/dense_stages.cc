// SPDX-License-Identifier: Apache-2.0
#include "calib/dense_stages.h"

#include <utility>

#include "lib/error.h"

namespace so4cal {
namespace {

// Rows c, c+r, c+2r, c+3r of y = R (or R^T) times those of x, for every block of the stage.
template <bool kTransposed>
void ApplyStage(std::span<const double> matrices, int stride, const RowMajorMatrix& x, RowMajorMatrix& y) {
  for (int i = 0; i < x.rows() / 4; ++i) {
    const Eigen::Map<const Eigen::Matrix<double, 4, 4, Eigen::RowMajor>> block(matrices.data() + 16 * i);
    const int first = FirstChannel(i, stride);
    for (int r = 0; r < 4; ++r) {
      auto out = y.row(first + r * stride);
      out.setZero();
      for (int c = 0; c < 4; ++c)
        out += (kTransposed ? block(c, r) : block(r, c)) * x.row(first + c * stride);
    }
  }
}

// gradient of one stage's matrices += dE/d out (in)^T.
void AddStageGradient(const RowMajorMatrix& g, const RowMajorMatrix& in, int stride,
                      std::span<double> gradient) {
  for (int i = 0; i < in.rows() / 4; ++i) {
    const int first = FirstChannel(i, stride);
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 4; ++c)
        gradient[static_cast<std::size_t>(16 * i + 4 * r + c)] +=
            g.row(first + r * stride).dot(in.row(first + c * stride));
  }
}

}  // namespace

DenseStages::DenseStages(const StageShape& shape) : shape_(shape) {
  partial_.assign(shape.strides.size() + 1, RowMajorMatrix::Identity(shape.channels, shape.channels));
  swap_ = partial_[0];
}

std::span<const double> DenseStages::OfStage(std::span<const double> matrices, std::size_t stage) const {
  const std::size_t size = 4 * static_cast<std::size_t>(shape_.channels);
  return matrices.subspan(stage * size, size);
}

const RowMajorMatrix& DenseStages::Multiply(std::span<const double> matrices) {
  for (std::size_t s = 0; s < shape_.strides.size(); ++s)
    ApplyStage<false>(OfStage(matrices, s), shape_.strides[s], partial_[s], partial_[s + 1]);
  return partial_.back();
}

void DenseStages::AddGradient(std::span<const double> matrices, RowMajorMatrix& g,
                              std::span<double> gradient) {
  const std::size_t size = 4 * static_cast<std::size_t>(shape_.channels);
  for (std::size_t s = shape_.strides.size(); s-- > 0;) {
    AddStageGradient(g, partial_[s], shape_.strides[s], gradient.subspan(s * size, size));
    if (s == 0) return;
    ApplyStage<true>(OfStage(matrices, s), shape_.strides[s], g, swap_);
    std::swap(g, swap_);
  }
}

RowMajorMatrix MetricBeforeStages(const Metric& metric, const HeadTransform& before_stages) {
  const Eigen::Index n = before_stages.head_dim;
  SO4CAL_CHECK(metric.size() == static_cast<std::size_t>(n * n));
  const std::vector<double> dense = DenseMatrix(before_stages);
  const Eigen::Map<const RowMajorMatrix> m(metric.data(), n, n), before(dense.data(), n, n);
  return before * m * before.transpose();
}

double EnergyUnder(const RowMajorMatrix& metric, std::span<const float> rows) {
  const auto d = static_cast<std::size_t>(metric.rows());
  double energy = 0;
  for (std::size_t t = 0; t < rows.size(); t += d) {
    const Eigen::VectorXd y =
        Eigen::Map<const Eigen::VectorXf>(rows.data() + t, metric.rows()).cast<double>();
    energy += y.dot(metric * y);
  }
  return energy > 0 ? energy : 1;
}

}  // namespace so4cal
