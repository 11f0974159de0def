// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/codec_spec.h"
#include "lib/feedback_rounding.h"
#include "lib/quantize_block.h"

namespace so4cal::reference {

// lib/CODEC.md, "Rounding", one token and one operation at a time, in the order that the page fixes. What the
// kernels must give bit by bit.
class RowRounding {
 public:
  RowRounding(const CodecSpec& spec, std::span<const double> damped_mz, int rounds)
      : n_(static_cast<std::size_t>(spec.head_dim)),
        block_(static_cast<std::size_t>(spec.block)),
        num_blocks_(static_cast<std::size_t>(spec.num_blocks())),
        grid_(&GridFor(spec.grid, spec.bits)),
        rounds_(rounds),
        mz_(damped_mz.begin(), damped_mz.end()) {
    const FeedbackFactor factor = FactorMetric({damped_mz.begin(), damped_mz.end()}, n_);
    f_.assign(factor.coefficients.begin(), factor.coefficients.end());
  }

  // Codes of z; refinement changes the scales.
  std::vector<std::uint8_t> Round(std::span<const float> z, std::span<BlockScale> scales) const {
    std::vector<std::uint8_t> codes = PushErrorsOn(z, scales);
    for (int round = 0; round < rounds_; ++round) {
      RefitScales(z, scales, codes);
      Sweep(z, scales, codes);
    }
    return codes;
  }

 private:
  static float Inverse(const BlockScale& scale) { return scale.value == 0 ? 0 : 1.0f / scale.value; }
  std::span<const float> MetricRow(std::size_t i) const { return std::span(mz_).subspan(i * n_, n_); }

  std::vector<std::uint8_t> PushErrorsOn(std::span<const float> z, std::span<const BlockScale> scales) const {
    std::vector<float> target(z.begin(), z.end());
    std::vector<std::uint8_t> codes;
    for (std::size_t i = 0; i < n_; ++i) {
      const BlockScale& scale = scales[i / block_];
      codes.push_back(scale.value == 0 ? grid_->zero_code : NearestCode(*grid_, target[i] * Inverse(scale)));
      const float error = target[i] - scale.value * grid_->levels[codes[i]];
      for (std::size_t j = i + 1; j < n_; ++j) target[j] -= error * f_[i * n_ + j];
    }
    return codes;
  }

  void RefitScales(std::span<const float> z, std::span<BlockScale> scales,
                   std::span<const std::uint8_t> codes) const {
    std::vector<float> g;
    for (const std::uint8_t code : codes) g.push_back(grid_->levels[code]);
    std::vector<double> a(num_blocks_ * num_blocks_, 0.0), rhs(num_blocks_, 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      const std::size_t b = i / block_;
      const auto g_i = static_cast<double>(g[i]);
      for (std::size_t c = 0; c <= b; ++c)
        a[b * num_blocks_ + c] +=
            g_i * static_cast<double>(FixedDot(MetricRow(i).subspan(c * block_, block_),
                                               std::span<const float>(g).subspan(c * block_, block_)));
      rhs[b] += g_i * static_cast<double>(FixedDot(MetricRow(i), z));
    }
    for (std::size_t b = 0; b < num_blocks_; ++b)
      if (scales[b].value == 0 || !(a[b * num_blocks_ + b] > 0)) Exclude(b, a, rhs);
    if (!Solve(a, rhs)) return;
    for (std::size_t b = 0; b < num_blocks_; ++b) {
      const BlockScale refitted = RoundScale(static_cast<float>(rhs[b]));
      if (!refitted.overflow && refitted.value * scales[b].value > 0) scales[b] = refitted;
    }
  }

  void Exclude(std::size_t k, std::vector<double>& a, std::vector<double>& rhs) const {
    for (std::size_t i = 0; i < num_blocks_; ++i) a[i * num_blocks_ + k] = a[k * num_blocks_ + i] = 0;
    a[k * num_blocks_ + k] = 1;
    rhs[k] = 0;
  }

  // Cholesky from the lower triangle; rhs becomes the solution.
  bool Solve(std::vector<double>& a, std::vector<double>& rhs) const {
    const std::size_t n = num_blocks_;
    for (std::size_t j = 0; j < n; ++j) {
      double pivot = a[j * n + j];
      for (std::size_t k = 0; k < j; ++k) pivot -= a[j * n + k] * a[j * n + k];
      if (!(pivot > 1e-9 * a[j * n + j])) return false;
      a[j * n + j] = std::sqrt(pivot);
      for (std::size_t i = j + 1; i < n; ++i) {
        for (std::size_t k = 0; k < j; ++k) a[i * n + j] -= a[i * n + k] * a[j * n + k];
        a[i * n + j] /= a[j * n + j];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) rhs[i] -= a[i * n + k] * rhs[k];
      rhs[i] /= a[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t k = i + 1; k < n; ++k) rhs[i] -= a[k * n + i] * rhs[k];
      rhs[i] /= a[i * n + i];
    }
    return true;
  }

  void Sweep(std::span<const float> z, std::span<const BlockScale> scales,
             std::span<std::uint8_t> codes) const {
    std::vector<float> error, slope;  // zhat - z, Mz e
    for (std::size_t i = 0; i < n_; ++i)
      error.push_back(scales[i / block_].value * grid_->levels[codes[i]] - z[i]);
    for (std::size_t i = 0; i < n_; ++i) slope.push_back(FixedDot(MetricRow(i), error));
    for (std::size_t i = 0; i < n_; ++i) {
      const BlockScale& scale = scales[i / block_];
      if (scale.value == 0) continue;
      const float now = scale.value * grid_->levels[codes[i]];
      const std::uint8_t code = NearestCode(*grid_, (now - slope[i] / MetricRow(i)[i]) * Inverse(scale));
      if (code == codes[i]) continue;
      const float change = scale.value * grid_->levels[code] - now;
      codes[i] = code;
      for (std::size_t j = 0; j < n_; ++j) slope[j] += MetricRow(i)[j] * change;
    }
  }

  std::size_t n_, block_, num_blocks_;
  const Grid* grid_;
  int rounds_;
  std::vector<float> mz_, f_;  // row-major
};

}  // namespace so4cal::reference
