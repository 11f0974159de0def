// SPDX-License-Identifier: Apache-2.0
#include "calib/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "lib/error.h"

namespace so4cal {

RatioInterval BootstrapRatio(std::span<const double> numerator, std::span<const double> denominator,
                             int num_resamples, std::uint64_t seed) {
  SO4CAL_CHECK(numerator.size() == denominator.size() && num_resamples > 0);
  const double below = std::accumulate(denominator.begin(), denominator.end(), 0.0);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (!(below > 0)) return {kNan, kNan, kNan};
  std::mt19937_64 rng(seed);
  std::vector<double> ratios;
  for (int i = 0; i < num_resamples; ++i) {
    double above = 0, sum = 0;
    for (std::size_t run = 0; run < numerator.size(); ++run) {
      const std::size_t drawn = rng() % numerator.size();  // the same on every platform; bias below 1e-15
      above += numerator[drawn];
      sum += denominator[drawn];
    }
    if (sum > 0) ratios.push_back(above / sum);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(std::lround(share * static_cast<double>(ratios.size() - 1)))];
  };
  return {std::accumulate(numerator.begin(), numerator.end(), 0.0) / below, at(0.025), at(0.975)};
}

}  // namespace so4cal
