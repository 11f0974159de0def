// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/codec_spec.h"

namespace so4cal {

// Mz = V D V^T with V unit upper triangular and D diagonal. With P the upper Cholesky factor of Mz^-1
// (Mz^-1 = P^T P): pivots[i] = D_i = 1 / P_ii^2 and coefficients[i * n + j] = (V^-1)_ij = P_ij / P_ii.
// calib/MATH.md section 5.
struct FeedbackFactor {
  std::vector<double> pivots;
  std::vector<double> coefficients;
};
// mz: symmetric, row-major n x n. Throws Error when it is not safely positive definite.
FeedbackFactor FactorMetric(std::vector<double> mz, std::size_t n);

// U M U^T, symmetrized, plus damping * trace / n on the diagonal. u, m: row-major n x n.
std::vector<double> RotatedMetric(std::span<const double> u, std::span<const float> m, double damping,
                                  std::size_t n);

// A head's metric as the encoder reads it. Panel-major: kPanelRows rows at a time (lib/encode_tile.h), of
// these the entries of column 0, then those of column 1, and so on.
struct RoundingMetric {
  static constexpr int kMaxRefinedBlocks = 64;

  int rounds = 0;             // of refinement; 0: feedback only
  std::vector<float> push;    // FeedbackFactor::coefficients
  std::vector<float> metric;  // the damped Mz
};
// damped_mz: row-major, spec.head_dim squared. Throws Error as FactorMetric() does, and when there are rounds
// and more than kMaxRefinedBlocks blocks.
RoundingMetric MakeRoundingMetric(const CodecSpec& spec, std::span<const double> damped_mz, int rounds);

}  // namespace so4cal
