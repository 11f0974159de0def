// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "calib/loss.h"
#include "lib/rotation_table.h"
#include "lib/transform.h"

namespace so4cal {

// How one solve went. `stages` is the best point found, never worse than the start.
struct StagesFit {
  std::vector<Stage> stages;
  double initial_loss = 0, final_loss = 0;  // of RotationLoss::Evaluate
  int iterations = 0;
  bool converged = false;
};

// Minimizes `loss` over the blocks of the stages by L-BFGS on the product of unit quaternions
// (calib/MATH.md section 3), from `start`, whose strides are those of loss.shape(). Single-threaded and
// deterministic. A family without parameters, or no stages, returns the start.
StagesFit FitStages(RotationLoss& loss, Family family, const std::vector<Stage>& start, int max_iterations);

}  // namespace so4cal
