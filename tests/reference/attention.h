// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace so4cal::reference {

// softmax(scale * q K^T) V of one query in double: keys [n][d], values [n][dv].
inline std::vector<double> Attention(std::span<const double> keys, std::span<const double> values,
                                     std::size_t dv, double scale, std::span<const double> q) {
  const std::size_t d = q.size(), n = keys.size() / d;
  std::vector<double> p(n, 0.0), out(dv, 0.0);
  for (std::size_t s = 0; s < n; ++s) {
    for (std::size_t i = 0; i < d; ++i) p[s] += q[i] * keys[s * d + i];
    p[s] *= scale;
  }
  const double top = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& v : p) sum += v = std::exp(v - top);
  for (std::size_t s = 0; s < n; ++s)
    for (std::size_t i = 0; i < dv; ++i) out[i] += p[s] / sum * values[s * dv + i];
  return out;
}

}  // namespace so4cal::reference
