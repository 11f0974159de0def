// SPDX-License-Identifier: Apache-2.0
#include "lib/so4.h"

#include <algorithm>
#include <cmath>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr double kSignThreshold = 1e-6;

Quat Conj(const Quat& q) { return {q[0], -q[1], -q[2], -q[3]}; }

// Row i, column j of L(e_a) R(conj e_b) for basis quaternions: the matrix of v -> e_a v conj(e_b).
Matrix4 BasisMatrix(int a, int b) {
  So4 r{{0, 0, 0, 0}, {0, 0, 0, 0}};
  r.left[static_cast<std::size_t>(a)] = 1;
  r.right[static_cast<std::size_t>(b)] = 1;
  return ToMatrix(r);
}

double Norm(const Quat& q) { return std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]); }

Quat Scaled(const Quat& q, double factor) {
  return {q[0] * factor, q[1] * factor, q[2] * factor, q[3] * factor};
}

// K[a][b] = 1/4 <m, L(e_a) R(conj e_b)>.
Matrix4 PairCoefficients(const Matrix4& m) {
  Matrix4 k{};
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b) {
      const Matrix4 basis = BasisMatrix(a, b);
      double dot = 0;
      for (std::size_t i = 0; i < 16; ++i) dot += m[i] * basis[i];
      k[static_cast<std::size_t>(4 * a + b)] = dot / 4;
    }
  return k;
}

// Eigenvector of the largest eigenvalue of the symmetric s, by cyclic Jacobi rotations.
Quat LeadingEigenvector(Matrix4 s) {
  Matrix4 v{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  for (int sweep = 0; sweep < 30; ++sweep)
    for (std::size_t p = 0; p < 3; ++p)
      for (std::size_t q = p + 1; q < 4; ++q) {
        if (s[4 * p + q] == 0) continue;
        const double theta = (s[4 * q + q] - s[4 * p + p]) / (2 * s[4 * p + q]);
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double cosine = 1 / std::hypot(t, 1.0), sine = t * cosine;
        for (std::size_t i = 0; i < 4; ++i) {  // columns p, q of s and of v
          const double sp = s[4 * i + p], sq = s[4 * i + q], vp = v[4 * i + p], vq = v[4 * i + q];
          s[4 * i + p] = cosine * sp - sine * sq;
          s[4 * i + q] = sine * sp + cosine * sq;
          v[4 * i + p] = cosine * vp - sine * vq;
          v[4 * i + q] = sine * vp + cosine * vq;
        }
        for (std::size_t i = 0; i < 4; ++i) {  // rows p, q of s
          const double sp = s[4 * p + i], sq = s[4 * q + i];
          s[4 * p + i] = cosine * sp - sine * sq;
          s[4 * q + i] = sine * sp + cosine * sq;
        }
      }
  std::size_t best = 0;
  for (std::size_t i = 1; i < 4; ++i)
    if (s[5 * i] > s[5 * best]) best = i;
  return {v[best], v[4 + best], v[8 + best], v[12 + best]};
}

}  // namespace

So4 Canonical(const So4& r) {
  double sign = 1;
  for (const double c : r.left)
    if (std::abs(c) > kSignThreshold) {
      sign = c < 0 ? -1 : 1;
      break;
    }
  So4 out{Scaled(r.left, sign), Scaled(r.right, sign)};
  for (Quat* q : {&out.left, &out.right})
    for (double& c : *q) c += 0.0;  // -0 + 0 is +0
  return out;
}

So4 Inverse(const So4& rotated_from_raw) {
  return {Conj(rotated_from_raw.left), Conj(rotated_from_raw.right)};
}

Matrix4 ToMatrix(const So4& rotated_from_raw) {
  const Quat conj_right = Conj(rotated_from_raw.right);
  Matrix4 m;
  for (std::size_t column = 0; column < 4; ++column) {
    Quat e{0, 0, 0, 0};
    e[column] = 1;
    const Quat left_e = Mul(rotated_from_raw.left.data(), e.data());
    const Quat image = Mul(left_e.data(), conj_right.data());
    for (std::size_t row = 0; row < 4; ++row) m[4 * row + column] = image[row];
  }
  return m;
}

So4 NearestRotation(const Matrix4& m) {
  double largest = 0;
  for (const double v : m) {
    if (!std::isfinite(v)) throw Error("a 4 x 4 block holds NaN or infinity, expected a rotation matrix");
    largest = std::max(largest, std::abs(v));
  }
  if (largest == 0) throw Error("a 4 x 4 block is all zero, expected a rotation matrix");
  Matrix4 scaled = m;  // so that squares neither overflow nor vanish
  for (double& v : scaled) v /= largest;
  const Matrix4 k = PairCoefficients(scaled);
  Matrix4 gram{};  // K^T K, whose leading eigenvector is `right`
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t a = 0; a < 4; ++a) gram[4 * i + j] += k[4 * a + i] * k[4 * a + j];
  Quat right = LeadingEigenvector(gram);
  Quat left{};
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b) left[a] += k[4 * a + b] * right[b];
  const double singular_value = Norm(left);
  if (!(singular_value > 1e-12))
    throw Error("a 4 x 4 block has no nearest rotation, expected a rotation matrix");
  return Canonical({Scaled(left, 1 / singular_value), Scaled(right, 1 / Norm(right))});
}

}  // namespace so4cal
