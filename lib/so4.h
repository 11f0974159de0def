// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace so4cal {

// Unit quaternion, scalar first: {w, x, y, z}. This order is the same in memory, in every file format
// and in Ceres parameter blocks.
using Quat = std::array<double, 4>;

// 4 x 4 matrix, row-major, acting on column vectors.
using Matrix4 = std::array<double, 16>;

// Hamilton product a*b. T may be ceres::Jet.
template <class T>
constexpr std::array<T, 4> Mul(const T* a, const T* b) {
  return {a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
          a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
          a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
          a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]};
}

// A rotation of one 4-channel block: y = left * x * conj(right).
// (left, right) and (-left, -right) are the same rotation; see Canonical().
struct So4 {
  Quat left{1, 0, 0, 0};
  Quat right{1, 0, 0, 0};
  bool operator==(const So4&) const = default;
};

// The representative that tables store: the first coefficient of `left` with magnitude above 1e-6 is
// positive, and -0 is written as 0. lib/CODEC.md, "SO(4) blocks".
So4 Canonical(const So4& r);

So4 Inverse(const So4& rotated_from_raw);

// L(left) R(conj right), calib/MATH.md section 1.
Matrix4 ToMatrix(const So4& rotated_from_raw);

// The rotation nearest to m in the Frobenius norm, canonical: K[a][b] = 1/4 <m, L(e_a) R(conj e_b)>, whose
// leading singular pair is (left, right). Exact when m is in SO(4). Throws Error when no rotation is
// nearest to m (its leading singular value is 0) or m is not finite. A reflection is mapped to the nearest
// rotation too: compare ToMatrix() of the result with m where that matters.
So4 NearestRotation(const Matrix4& m);

}  // namespace so4cal
