// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "calib/moments.h"
#include "lib/so4.h"
#include "lib/transform.h"
#include "tests/support/random_data.h"

namespace so4cal {

// A A^T of d + 16 random rows with a power-law spectrum, as query moments have.
inline Metric RandomMetric(int head_dim, unsigned seed) {
  const auto d = static_cast<std::size_t>(head_dim);
  const std::vector<float> a = Noise((d + 16) * d, seed);
  Metric m(d * d, 0.0);
  for (std::size_t r = 0; r < d + 16; ++r)
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j < d; ++j)
        m[i * d + j] += static_cast<double>(a[r * d + i]) * static_cast<double>(a[r * d + j]) /
                        std::sqrt(static_cast<double>((i + 1) * (j + 1)));
  return m;
}

// The matrices of all blocks, [stage][block][16], as a loss takes them.
inline std::vector<double> Matrices(const std::vector<Stage>& stages) {
  std::vector<double> m;
  for (const Stage& s : stages)
    for (const So4& b : s.blocks)
      for (const double v : ToMatrix(b)) m.push_back(v);
  return m;
}

}  // namespace so4cal
