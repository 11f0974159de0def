// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "calib/loss.h"
#include "calib/moments.h"
#include "lib/transform.h"

namespace so4cal {

using RowMajorMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The product U = Stage_n ... Stage_1 of a head's stages as a d x d matrix, and the chain rule back from it:
// what losses under a metric need.
class DenseStages {
 public:
  explicit DenseStages(const StageShape& shape);

  // U. Valid until the next call.
  const RowMajorMatrix& Multiply(std::span<const double> matrices);

  // gradient (of the stages' matrices) += the chain rule of g = dE/dU, at the matrices of the last Multiply.
  // g is overwritten.
  void AddGradient(std::span<const double> matrices, RowMajorMatrix& g, std::span<double> gradient);

 private:
  std::span<const double> OfStage(std::span<const double> matrices, std::size_t stage) const;

  StageShape shape_;
  std::vector<RowMajorMatrix> partial_;  // [s]: the first s stages
  RowMajorMatrix swap_;
};

// U0 M U0^T for the map U0 before the stages: M in the frame that a fit works in.
RowMajorMatrix MetricBeforeStages(const Metric& metric, const HeadTransform& before_stages);

// sum over rows of y^T M y; 1 when there is none. rows: [tokens][d] in the frame of the metric.
double EnergyUnder(const RowMajorMatrix& metric, std::span<const float> rows);

}  // namespace so4cal
