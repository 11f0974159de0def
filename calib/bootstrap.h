// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace so4cal {

struct RatioInterval {
  double ratio = 0;          // of the sums
  double low = 0, high = 0;  // 95 per cent of the resampled ratios lie between
};

// sum(numerator) / sum(denominator) over runs of tokens, with its percentile bootstrap interval: runs are
// drawn again with replacement, both sums from the same runs. Same seed, same result. All NaN when a list is
// empty or the denominators' sum is not positive.
RatioInterval BootstrapRatio(std::span<const double> numerator, std::span<const double> denominator,
                             int num_resamples = 1000, std::uint64_t seed = 1);

}  // namespace so4cal
