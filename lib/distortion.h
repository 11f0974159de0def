// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace so4cal {

// Reconstruction error of some rows, mergeable: statistics of parts add up to those of the whole.
struct Distortion {
  std::size_t num_rows = 0;
  double error_energy = 0;    // sum |x_hat - x|^2
  double energy = 0;          // sum |x|^2
  double centred_energy = 0;  // sum |x - mean|^2, mean of the fit tokens
  double max_abs = 0;         // largest |x_hat - x| of a single channel

  // mean may be empty (zero). All spans have the same length.
  void Add(std::span<const float> x, std::span<const float> x_hat, std::span<const float> mean);
  void Merge(const Distortion& other);

  double nmse() const { return error_energy / energy; }
  double nmse_centred() const { return error_energy / centred_energy; }
  double sqnr_db() const;  // -10 log10(nmse)
};

}  // namespace so4cal
