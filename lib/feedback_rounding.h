// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/codec_spec.h"
#include "lib/quantize_block.h"

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

// Rounding of one row under a metric: errors are pushed on to later coordinates, then `rounds` rounds of
// refinement. calib/MATH.md section 5; the order of operations is fixed in lib/CODEC.md, "Rounding".
class FeedbackRounding {
 public:
  static constexpr int kMaxRefinedBlocks = 64;

  FeedbackRounding(const CodecSpec& spec, std::span<const double> damped_mz, int rounds);

  // z: head_dim values in the rotated frame. scales: one per block, chosen before; refinement changes them.
  // codes: head_dim, written.
  void Round(std::span<const float> z, std::span<BlockScale> scales,
             std::span<std::uint8_t> codes) const noexcept;

 private:
  void PushErrorsOn(std::span<const float> z, std::span<const BlockScale> scales,
                    std::span<std::uint8_t> codes) const noexcept;
  void RefitScales(std::span<const float> z, std::span<BlockScale> scales,
                   std::span<const std::uint8_t> codes) const noexcept;
  void Sweep(std::span<const float> z, std::span<const BlockScale> scales,
             std::span<std::uint8_t> codes) const noexcept;

  std::size_t n_, block_, num_blocks_;
  const Grid* grid_;
  int rounds_;
  std::vector<float> mz_;            // row-major, symmetric
  std::vector<float> coefficients_;  // row-major, upper triangle used
};

}  // namespace so4cal
