// SPDX-License-Identifier: Apache-2.0
#include "lib/distortion.h"

#include <algorithm>
#include <cmath>

#include "lib/error.h"

namespace so4cal {

void Distortion::Add(std::span<const float> x, std::span<const float> x_hat, std::span<const float> mean) {
  SO4CAL_CHECK(x.size() == x_hat.size() && (mean.empty() || mean.size() == x.size()));
  ++num_rows;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i], error = x_hat[i] - value;
    const double centred = mean.empty() ? value : value - mean[i];
    error_energy += error * error;
    energy += value * value;
    centred_energy += centred * centred;
    max_abs = std::max(max_abs, std::abs(error));
  }
}

void Distortion::Merge(const Distortion& other) {
  num_rows += other.num_rows;
  error_energy += other.error_energy;
  energy += other.energy;
  centred_energy += other.centred_energy;
  max_abs = std::max(max_abs, other.max_abs);
}

double Distortion::sqnr_db() const { return -10 * std::log10(nmse()); }

}  // namespace so4cal
