// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "calib/dense_stages.h"
#include "calib/loss.h"
#include "lib/head_table.h"

namespace so4cal {

// The rounding error itself under a metric M, sum_t e^T M e with e = x_hat - x: what the codec makes of the
// tokens, by its own rounding rule. calib/MATH.md section 5, "Exact loss under M". To polish an optimum of
// MetricLoss.
class ExactMetricLoss final : public RotationLoss {
 public:
  // rows: [tokens][head_dim] in the frame before the stages (offset, signs, Hadamard transform applied).
  // metric: raw frame. rounding: rule, damping and rounds; its transform is not used.
  ExactMetricLoss(const StageShape& shape, const CodecSpec& codec, std::vector<float> rows,
                  const Metric& metric, const HeadTransform& before_stages, const HeadTable& rounding);

  double Evaluate(std::span<const double> matrices, std::span<double> gradient) override;

 private:
  using RowMajorF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  // Each row of `slope`, Mz e of a token, becomes the scales' part of dE/dz: s moves with z, zhat = s g[c].
  void ScaleGradient(const RowMajorF& z, const RowMajorF& z_hat, RowMajorF& slope) const;

  CodecSpec codec_;
  std::vector<float> rows_;
  RowMajorF metric_;
  HeadTable table_;
  DenseStages stages_;
  double energy_ = 0;
  std::vector<std::uint8_t> bytes_;  // of one tile
};

}  // namespace so4cal
