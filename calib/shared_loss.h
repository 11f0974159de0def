// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "calib/loss.h"

namespace so4cal {

// The mean of several heads' losses: one rotation for all of them. Each loss is relative to its head's
// energy, so a loud head counts no more than a quiet one.
class SharedLoss final : public RotationLoss {
 public:
  // losses: at least one, all of one shape.
  explicit SharedLoss(std::vector<std::unique_ptr<RotationLoss>> losses)
      : RotationLoss(losses.at(0)->shape()), losses_(std::move(losses)) {}

  double Evaluate(std::span<const double> matrices, std::span<double> gradient) override {
    const double weight = 1 / static_cast<double>(losses_.size());
    double sum = 0;
    one_gradient_.resize(gradient.size());
    for (std::size_t i = 0; i < losses_.size(); ++i) {
      sum += weight * losses_[i]->Evaluate(matrices, one_gradient_);
      for (std::size_t k = 0; k < gradient.size(); ++k)
        gradient[k] = (i == 0 ? 0 : gradient[k]) + weight * one_gradient_[k];
    }
    return sum;
  }

 private:
  std::vector<std::unique_ptr<RotationLoss>> losses_;
  std::vector<double> one_gradient_;
};

}  // namespace so4cal
