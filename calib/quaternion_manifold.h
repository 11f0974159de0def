// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ceres/manifold.h>

namespace so4cal {

// The product of n unit spheres S^3: 4n ambient and 3n tangent dimensions, quaternion i at 4i, scalar first.
// Plus and Minus are those of ceres::QuaternionManifold per quaternion. A class of its own because the
// number of quaternions is known at run time only, and because RightMultiplyByPlusJacobian can use that the
// Jacobian is block diagonal: ceres::GradientProblem calls nothing else in a solve.
class QuaternionProductManifold final : public ceres::Manifold {
 public:
  explicit QuaternionProductManifold(int num_quaternions) : num_quaternions_(num_quaternions) {}

  int AmbientSize() const override { return 4 * num_quaternions_; }
  int TangentSize() const override { return 3 * num_quaternions_; }
  bool Plus(const double* x, const double* delta, double* x_plus_delta) const override;
  bool PlusJacobian(const double* x, double* jacobian) const override;
  bool RightMultiplyByPlusJacobian(const double* x, int num_rows, const double* ambient_matrix,
                                   double* tangent_matrix) const override;
  bool Minus(const double* y, const double* x, double* y_minus_x) const override;
  bool MinusJacobian(const double* x, double* jacobian) const override;

 private:
  int num_quaternions_;
};

}  // namespace so4cal
