// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "lib/transform.h"
#include "tests/reference/so4_matrix.h"

namespace so4cal::reference {

// Dense row-major n x n matrices from the definitions in calib/MATH.md section 1.
inline std::vector<double> Identity(std::size_t n) {
  std::vector<double> m(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) m[i * n + i] = 1;
  return m;
}

inline std::vector<double> Times(const std::vector<double>& a, const std::vector<double>& b, std::size_t n) {
  std::vector<double> c(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

// I (x) H_p: H[r][c] = (-1)^popcount(r & c) / sqrt(p) inside sections of p.
inline std::vector<double> Hadamard(std::size_t n) {
  const std::size_t p = n & (~n + 1);
  std::vector<double> m(n * n, 0.0);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t c = r / p * p; c < r / p * p + p; ++c)
      m[r * n + c] =
          ((std::popcount((r % p) & (c % p)) & 1) != 0 ? -1 : 1) / std::sqrt(static_cast<double>(p));
  return m;
}

inline std::vector<double> StageMatrix(const Stage& stage, std::size_t n) {
  std::vector<double> m(n * n, 0.0);
  const auto r = static_cast<std::size_t>(stage.stride);
  for (std::size_t i = 0; i < n / 4; ++i) {
    const std::size_t c = 4 * r * (i / r) + i % r;
    const Matrix4 block = BlockMatrix(stage.blocks[i]);
    for (std::size_t row = 0; row < 4; ++row)
      for (std::size_t col = 0; col < 4; ++col) m[(c + row * r) * n + c + col * r] = block[4 * row + col];
  }
  return m;
}

inline std::vector<double> TransformMatrix(const HeadTransform& t) {
  const auto n = static_cast<std::size_t>(t.head_dim);
  std::vector<double> u = Identity(n);
  for (std::size_t i = 0; i < t.signs.size(); ++i) u[i * n + i] = t.signs[i];
  if (t.hadamard) u = Times(Hadamard(n), u, n);
  for (const Stage& stage : t.stages) u = Times(StageMatrix(stage, n), u, n);
  return u;
}

}  // namespace so4cal::reference
