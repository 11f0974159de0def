// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/so4.h"

namespace so4cal::reference {

// calib/MATH.md section 1, written out.
inline Matrix4 LeftMatrix(const Quat& q) {
  const auto [a, b, c, d] = q;
  return {a, -b, -c, -d, b, a, -d, c, c, d, a, -b, d, -c, b, a};
}
inline Matrix4 RightMatrix(const Quat& q) {
  const auto [e, f, g, h] = q;
  return {e, -f, -g, -h, f, e, h, -g, g, -h, e, f, h, g, -f, e};
}
inline Matrix4 Product(const Matrix4& a, const Matrix4& b) {
  Matrix4 c{};
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t k = 0; k < 4; ++k) c[4 * i + j] += a[4 * i + k] * b[4 * k + j];
  return c;
}
inline Matrix4 BlockMatrix(const So4& r) {
  const Quat& q = r.right;
  return Product(LeftMatrix(r.left), RightMatrix({q[0], -q[1], -q[2], -q[3]}));
}

}  // namespace so4cal::reference
