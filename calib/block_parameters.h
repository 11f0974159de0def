// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ceres/manifold.h>

#include "lib/rotation_table.h"
#include "lib/so4.h"

namespace so4cal {

// The free parameters of a list of SO(4) blocks, per family (calib/MATH.md section 1):
//   butterfly, so4  qL and qR of every block: 8 numbers, 6 degrees of freedom
//   left            qL, qR = 1: 4 numbers, 3 degrees of freedom
//   planar          the angles of channels (0, 1) and (2, 3): 2 numbers, 2 degrees of freedom
class BlockParameters {
 public:
  BlockParameters(Family family, int num_blocks);

  int num_parameters() const { return per_block_ * num_blocks_; }
  std::unique_ptr<ceres::Manifold> MakeManifold() const;

  // The blocks must be in the family (as identity blocks are in every one).
  std::vector<double> FromBlocks(std::span<const So4> blocks) const;
  std::vector<So4> ToBlocks(std::span<const double> parameters) const;

  // 16 numbers per block, row-major.
  void ToMatrices(std::span<const double> parameters, std::span<double> matrices) const;
  // dE/d parameters from dE/d matrices, by dE/dqL_a = <dE/dR, L(e_a) R(conj qR)> and likewise for qR.
  void ChainGradient(std::span<const double> parameters, std::span<const double> matrix_gradient,
                     std::span<double> gradient) const;

 private:
  So4 Block(const double* parameters) const;

  Family family_;
  int num_blocks_;
  int per_block_;
};

}  // namespace so4cal
