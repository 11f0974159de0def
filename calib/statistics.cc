// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics.h"

#include <algorithm>
#include <cmath>

#include "lib/error.h"

namespace so4cal {
namespace {

// The upper one of the two in the middle.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Sums over tokens and channels from which all the figures follow.
struct Sums {
  explicit Sums(std::size_t channels) : sum(channels), square(channels) {}
  std::vector<double> sum, square;  // per channel
  std::vector<double> norms;        // per token
  double fourth = 0, max_abs = 0;
  bool constant = true;
};

Sums Accumulate(const HeadView& head) {
  Sums sums(static_cast<std::size_t>(head.channels));
  const auto first = head.row(0);
  for (std::size_t t = 0; t < head.num_tokens; ++t) {
    const auto row = head.row(t);
    double energy = 0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double x = row[c], x2 = x * x;
      sums.sum[c] += x;
      sums.square[c] += x2;
      sums.fourth += x2 * x2;
      sums.max_abs = std::max(sums.max_abs, std::abs(x));
      energy += x2;
    }
    sums.norms.push_back(std::sqrt(energy));
    sums.constant = sums.constant && std::equal(row.begin(), row.end(), first.begin());
  }
  return sums;
}

}  // namespace

HeadStatistics MeasureStatistics(const HeadView& head) {
  SO4CAL_CHECK(head.num_tokens > 0 && head.channels > 0);
  const Sums sums = Accumulate(head);
  const auto tokens = static_cast<double>(head.num_tokens);
  const double count = tokens * head.channels;
  double energy = 0, mean_energy = 0;
  std::vector<double> channel_rms;
  for (std::size_t c = 0; c < sums.sum.size(); ++c) {
    energy += sums.square[c];
    mean_energy += sums.sum[c] * sums.sum[c] / tokens;
    channel_rms.push_back(std::sqrt(sums.square[c] / tokens));
  }

  HeadStatistics result;
  result.max_abs = sums.max_abs;
  result.constant = sums.constant;
  if (energy == 0) return result;
  result.rms = std::sqrt(energy / count);
  result.kurtosis = sums.fourth / count / (result.rms * result.rms * result.rms * result.rms);
  result.mean_energy_share = mean_energy / energy;
  const double median_rms = Median(channel_rms), median_norm = Median(sums.norms);
  for (std::size_t c = 0; c < channel_rms.size(); ++c)
    if (channel_rms[c] > HeadStatistics::kOutlierFactor * median_rms)
      result.outlier_channels.push_back(static_cast<int>(c));
  for (std::size_t t = 0; t < sums.norms.size(); ++t)
    if (sums.norms[t] > HeadStatistics::kSinkFactor * median_norm ||
        sums.norms[t] * HeadStatistics::kSinkFactor < median_norm)
      result.sink_tokens.push_back(t);
  return result;
}

}  // namespace so4cal
