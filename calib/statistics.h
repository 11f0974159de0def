// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "lib/activations.h"

namespace so4cal {

// What predicts how hard the activations of one head are to quantize.
struct HeadStatistics {
  double max_abs = 0;
  double rms = 0;
  // Mean of x^4 over (mean of x^2)^2, over all values of the head, about zero: 3 for a normal distribution,
  // large where few channels or tokens carry the energy. 0 for an all-zero head.
  double kurtosis = 0;
  // |channel means|^2 over the mean of |x|^2: the share of energy that an offset removes. 0 to 1.
  double mean_energy_share = 0;
  std::vector<int> outlier_channels;     // RMS above kOutlierFactor times the median RMS of the channels
  std::vector<std::size_t> sink_tokens;  // norm outside median / kSinkFactor to median * kSinkFactor
  bool constant = false;                 // every token is the same

  static constexpr double kOutlierFactor = 5;
  static constexpr double kSinkFactor = 3;
};

// Needs at least one token. Sums in double.
HeadStatistics MeasureStatistics(const HeadView& head);

}  // namespace so4cal
