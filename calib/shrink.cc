// SPDX-License-Identifier: Apache-2.0
#include "calib/shrink.h"

#include <algorithm>
#include <cmath>

namespace so4cal {
namespace {

double Dot(const Quat& a, const Quat& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]; }

// Along the great circle from a to b, also when b is the farther one of b and -b: (qL, -qR) is not the
// rotation of (qL, qR).
Quat Slerp(const Quat& a, const Quat& b, double share) {
  const double angle = std::acos(std::clamp(Dot(a, b), -1.0, 1.0));
  const double sine = std::sin(angle);
  if (sine < 1e-9) return share < 0.5 ? a : b;  // equal or opposite: no direction to go
  const double wa = std::sin((1 - share) * angle) / sine, wb = std::sin(share * angle) / sine;
  Quat q;
  for (std::size_t i = 0; i < 4; ++i) q[i] = wa * a[i] + wb * b[i];
  return q;
}

So4 Shrink(const So4& start, const So4& fitted, double share) {
  So4 to = fitted;
  if (Dot(start.left, fitted.left) + Dot(start.right, fitted.right) < 0) {
    for (double& v : to.left) v = -v;
    for (double& v : to.right) v = -v;
  }
  return Canonical({Slerp(start.left, to.left, share), Slerp(start.right, to.right, share)});
}

}  // namespace

std::vector<Stage> Shrink(const std::vector<Stage>& start, const std::vector<Stage>& fitted, double share) {
  std::vector<Stage> out = start;
  for (std::size_t s = 0; s < out.size(); ++s)
    for (std::size_t i = 0; i < out[s].blocks.size(); ++i)
      out[s].blocks[i] = Shrink(start[s].blocks[i], fitted[s].blocks[i], share);
  return out;
}

}  // namespace so4cal
