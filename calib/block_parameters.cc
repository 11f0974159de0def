// SPDX-License-Identifier: Apache-2.0
#include "calib/block_parameters.h"

#include <algorithm>
#include <cmath>

#include "calib/quaternion_manifold.h"
#include "lib/error.h"

namespace so4cal {
namespace {

int ParametersPerBlock(Family family) {
  switch (family) {
    case Family::kButterfly:
    case Family::kSo4:
      return 8;
    case Family::kLeft:
      return 4;
    case Family::kPlanar:
      return 2;
    case Family::kNone:
    case Family::kDense:
      break;
  }
  SO4CAL_CHECK(!"this family has no blocks to fit");
  return 0;
}

// Half angles (alpha, beta) of qL = (cos alpha, sin alpha, 0, 0) and qR = (cos beta, sin beta, 0, 0): the
// block turns channels (0, 1) by alpha - beta and channels (2, 3) by alpha + beta.
So4 PlanarBlock(double angle01, double angle23) {
  const double alpha = 0.5 * (angle23 + angle01), beta = 0.5 * (angle23 - angle01);
  return {{std::cos(alpha), std::sin(alpha), 0, 0}, {std::cos(beta), std::sin(beta), 0, 0}};
}

// dE/dqL and dE/dqR of one block: M x = qL x conj(qR) is linear in either quaternion.
void QuaternionGradient(const So4& block, const double* g, double* left, double* right) {
  for (int c = 0; c < 4; ++c) {  // column c of M is qL e_c conj(qR)
    Quat e{};
    e[static_cast<std::size_t>(c)] = 1;
    const double column[4] = {g[c], g[4 + c], g[8 + c], g[12 + c]};
    // <column, a (e conj(qR))> is linear in a with gradient column * conj(e conj(qR)) = column * qR * conj(e)
    const Quat conj_e{e[0], -e[1], -e[2], -e[3]};
    const Quat column_right = Mul(column, block.right.data());
    const Quat to_left = Mul(column_right.data(), conj_e.data());
    // <column, (qL e) conj(b)> has gradient conj(column) * qL * e in b
    const double conj_column[4] = {column[0], -column[1], -column[2], -column[3]};
    const Quat left_e = Mul(block.left.data(), e.data());
    const Quat to_right = Mul(conj_column, left_e.data());
    for (std::size_t k = 0; k < 4; ++k) {
      left[k] += to_left[k];
      right[k] += to_right[k];
    }
  }
}

}  // namespace

BlockParameters::BlockParameters(Family family, int num_blocks)
    : family_(family), num_blocks_(num_blocks), per_block_(ParametersPerBlock(family)) {}

std::unique_ptr<ceres::Manifold> BlockParameters::MakeManifold() const {
  if (family_ == Family::kPlanar)
    return std::make_unique<ceres::EuclideanManifold<ceres::DYNAMIC>>(num_parameters());
  return std::make_unique<QuaternionProductManifold>(num_parameters() / 4);
}

So4 BlockParameters::Block(const double* p) const {
  if (family_ == Family::kPlanar) return PlanarBlock(p[0], p[1]);
  So4 block;
  std::copy_n(p, 4, block.left.begin());
  if (family_ != Family::kLeft) std::copy_n(p + 4, 4, block.right.begin());
  return block;
}

std::vector<double> BlockParameters::FromBlocks(std::span<const So4> blocks) const {
  std::vector<double> parameters;
  for (const So4& b : blocks) {
    if (family_ == Family::kPlanar) {
      const double alpha = std::atan2(b.left[1], b.left[0]), beta = std::atan2(b.right[1], b.right[0]);
      parameters.insert(parameters.end(), {alpha - beta, alpha + beta});
      continue;
    }
    // The canonical form of a left turn may carry its sign in qR = -1.
    const double sign = family_ == Family::kLeft ? b.right[0] : 1;
    for (const double v : b.left) parameters.push_back(sign * v);
    if (family_ != Family::kLeft) parameters.insert(parameters.end(), b.right.begin(), b.right.end());
  }
  return parameters;
}

std::vector<So4> BlockParameters::ToBlocks(std::span<const double> parameters) const {
  std::vector<So4> blocks;
  for (int i = 0; i < num_blocks_; ++i) {
    So4 block = Block(parameters.data() + i * per_block_);
    for (Quat* q : {&block.left, &block.right}) {
      const double norm =
          std::sqrt((*q)[0] * (*q)[0] + (*q)[1] * (*q)[1] + (*q)[2] * (*q)[2] + (*q)[3] * (*q)[3]);
      for (double& v : *q) v /= norm;
    }
    blocks.push_back(Canonical(block));
  }
  return blocks;
}

void BlockParameters::ToMatrices(std::span<const double> parameters, std::span<double> matrices) const {
  for (int i = 0; i < num_blocks_; ++i) {
    const Matrix4 m = ToMatrix(Block(parameters.data() + i * per_block_));
    std::copy(m.begin(), m.end(), matrices.begin() + 16 * i);
  }
}

void BlockParameters::ChainGradient(std::span<const double> parameters,
                                    std::span<const double> matrix_gradient,
                                    std::span<double> gradient) const {
  for (int i = 0; i < num_blocks_; ++i) {
    const So4 block = Block(parameters.data() + i * per_block_);
    double left[4] = {}, right[4] = {};
    QuaternionGradient(block, matrix_gradient.data() + 16 * i, left, right);
    double* out = gradient.data() + i * per_block_;
    if (family_ == Family::kPlanar) {  // through d alpha and d beta
      const double alpha = -block.left[1] * left[0] + block.left[0] * left[1];
      const double beta = -block.right[1] * right[0] + block.right[0] * right[1];
      out[0] = 0.5 * (alpha - beta);
      out[1] = 0.5 * (alpha + beta);
      continue;
    }
    std::copy_n(left, 4, out);
    if (family_ != Family::kLeft) std::copy_n(right, 4, out + 4);
  }
}

}  // namespace so4cal
