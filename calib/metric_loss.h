// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "calib/loss.h"
#include "calib/moments.h"
#include "lib/head_table.h"
#include "lib/transform.h"

namespace so4cal {

// Expected rounding error under a metric M, calib/MATH.md section 5, in the form of the rounding rule that
// the head will be stored with: traces of the diagonal blocks of U M U^T for nearest, its pivots for feedback
// and refined. With M = I it is the expected TokenLoss. The blocks of the whole head are coupled.
class MetricLoss final : public RotationLoss {
 public:
  // rows: [tokens][head_dim] after `before_stages` (offset, signs, Hadamard transform; no stages).
  // damping: of the feedback rule, relative to tr(M)/d; 0 is allowed when M is positive definite.
  MetricLoss(const StageShape& shape, const CodecSpec& codec, std::span<const float> rows,
             const Metric& metric, const HeadTransform& before_stages, Rounding rounding, double damping);
  ~MetricLoss() override;

  double Evaluate(std::span<const double> matrices, std::span<double> gradient) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace so4cal
