// SPDX-License-Identifier: Apache-2.0
#include "calib/quaternion_manifold.h"

#include <Eigen/Core>

namespace so4cal {
namespace {

using RowMajorMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

const ceres::QuaternionManifold& OneQuaternion() {
  static const ceres::QuaternionManifold manifold;
  return manifold;
}

}  // namespace

bool QuaternionProductManifold::Plus(const double* x, const double* delta, double* x_plus_delta) const {
  for (int i = 0; i < num_quaternions_; ++i)
    if (!OneQuaternion().Plus(x + 4 * i, delta + 3 * i, x_plus_delta + 4 * i)) return false;
  return true;
}

bool QuaternionProductManifold::PlusJacobian(const double* x, double* jacobian) const {
  Eigen::Map<RowMajorMatrix> all(jacobian, AmbientSize(), TangentSize());
  all.setZero();
  for (int i = 0; i < num_quaternions_; ++i) {
    Eigen::Matrix<double, 4, 3, Eigen::RowMajor> one;
    if (!OneQuaternion().PlusJacobian(x + 4 * i, one.data())) return false;
    all.block<4, 3>(4 * i, 3 * i) = one;
  }
  return true;
}

bool QuaternionProductManifold::RightMultiplyByPlusJacobian(const double* x, int num_rows,
                                                            const double* ambient_matrix,
                                                            double* tangent_matrix) const {
  const Eigen::Map<const RowMajorMatrix> ambient(ambient_matrix, num_rows, AmbientSize());
  Eigen::Map<RowMajorMatrix> tangent(tangent_matrix, num_rows, TangentSize());
  for (int i = 0; i < num_quaternions_; ++i) {
    Eigen::Matrix<double, 4, 3, Eigen::RowMajor> one;
    if (!OneQuaternion().PlusJacobian(x + 4 * i, one.data())) return false;
    tangent.middleCols<3>(3 * i).noalias() = ambient.middleCols<4>(4 * i) * one;
  }
  return true;
}

bool QuaternionProductManifold::Minus(const double* y, const double* x, double* y_minus_x) const {
  for (int i = 0; i < num_quaternions_; ++i)
    if (!OneQuaternion().Minus(y + 4 * i, x + 4 * i, y_minus_x + 3 * i)) return false;
  return true;
}

bool QuaternionProductManifold::MinusJacobian(const double* x, double* jacobian) const {
  Eigen::Map<RowMajorMatrix> all(jacobian, TangentSize(), AmbientSize());
  all.setZero();
  for (int i = 0; i < num_quaternions_; ++i) {
    Eigen::Matrix<double, 3, 4, Eigen::RowMajor> one;
    if (!OneQuaternion().MinusJacobian(x + 4 * i, one.data())) return false;
    all.block<3, 4>(3 * i, 4 * i) = one;
  }
  return true;
}

}  // namespace so4cal
