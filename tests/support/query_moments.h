// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/random_data.h"

namespace so4cal {

// A^T A / n of N(0,1) rows with a few strong directions: what second moments of queries look like.
inline std::vector<float> QueryMoments(std::size_t n, unsigned seed) {
  const std::vector<float> a = Noise(2 * n * n, seed);
  std::vector<float> m(n * n, 0.0f);
  for (std::size_t r = 0; r < 2 * n; ++r)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        m[i * n + j] += a[r * n + i] * a[r * n + j] * (r < 3 ? 10.0f : 1.0f) / static_cast<float>(2 * n);
  return m;
}

}  // namespace so4cal
