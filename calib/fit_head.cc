// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_head.h"

#include <ceres/first_order_function.h>
#include <ceres/gradient_problem.h>
#include <ceres/gradient_problem_solver.h>

#include <cmath>
#include <memory>
#include <span>

#include "calib/block_parameters.h"
#include "lib/error.h"

namespace so4cal {
namespace {

// The loss as a function of quaternions. Ceres calls it from one thread.
class LossFunction final : public ceres::FirstOrderFunction {
 public:
  LossFunction(RotationLoss& loss, const BlockParameters& blocks)
      : loss_(loss),
        blocks_(blocks),
        matrices_(loss.shape().num_matrix_entries()),
        matrix_gradient_(loss.shape().num_matrix_entries()) {}

  int NumParameters() const override { return blocks_.num_parameters(); }

  bool Evaluate(const double* parameters, double* cost, double* gradient) const override {
    const std::span<const double> p(parameters, static_cast<std::size_t>(NumParameters()));
    blocks_.ToMatrices(p, matrices_);
    if (gradient == nullptr) {
      cost[0] = loss_.Evaluate(matrices_, {});
    } else {
      cost[0] = loss_.Evaluate(matrices_, matrix_gradient_);
      blocks_.ChainGradient(p, matrix_gradient_, {gradient, p.size()});
    }
    return std::isfinite(cost[0]);
  }

 private:
  RotationLoss& loss_;
  const BlockParameters& blocks_;
  mutable std::vector<double> matrices_, matrix_gradient_;
};

std::vector<So4> AllBlocks(const std::vector<Stage>& stages) {
  std::vector<So4> blocks;
  for (const Stage& s : stages) blocks.insert(blocks.end(), s.blocks.begin(), s.blocks.end());
  return blocks;
}

std::vector<Stage> WithBlocks(std::vector<Stage> stages, std::span<const So4> blocks) {
  std::size_t next = 0;
  for (Stage& s : stages)
    for (So4& b : s.blocks) b = blocks[next++];
  return stages;
}

ceres::GradientProblemSolver::Options SolverOptions(int max_iterations) {
  ceres::GradientProblemSolver::Options options;
  options.max_num_iterations = max_iterations;
  options.function_tolerance = 1e-5;  // relative; the report has three digits
  options.max_lbfgs_rank = 50;        // the kinks of the losses need a longer memory than the default 20
  options.logging_type = ceres::SILENT;
  return options;
}

}  // namespace

StagesFit FitStages(RotationLoss& loss, Family family, const std::vector<Stage>& start, int max_iterations) {
  StagesFit fit{.stages = start, .converged = true};
  if (start.empty()) return fit;
  SO4CAL_CHECK(start.size() == loss.shape().strides.size());
  const std::vector<So4> start_blocks = AllBlocks(start);
  const BlockParameters blocks(family, static_cast<int>(start_blocks.size()));
  std::vector<double> parameters = blocks.FromBlocks(start_blocks);
  const ceres::GradientProblem problem(new LossFunction(loss, blocks), blocks.MakeManifold().release());
  ceres::GradientProblemSolver::Summary summary;
  ceres::Solve(SolverOptions(max_iterations), problem, parameters.data(), &summary);
  fit.initial_loss = summary.initial_cost;
  fit.final_loss = summary.final_cost;
  fit.iterations = static_cast<int>(summary.iterations.size()) - 1;
  fit.converged = summary.termination_type == ceres::CONVERGENCE;
  if (summary.final_cost < summary.initial_cost) fit.stages = WithBlocks(start, blocks.ToBlocks(parameters));
  return fit;
}

}  // namespace so4cal
