// SPDX-License-Identifier: Apache-2.0
#include "lib/feedback_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::size_t kMaxHeadDim = 1024;
constexpr std::size_t kMaxBlocks = FeedbackRounding::kMaxRefinedBlocks;
constexpr double kSmallestPivot = 1e-9;  // of the mean diagonal

float Inverse(const BlockScale& scale) { return scale.value == 0 ? 0 : 1.0f / scale.value; }

// The scales' normal equations, at most kMaxBlocks of them, solved by Cholesky in place.
struct NormalEquations {
  std::size_t size;
  std::array<double, kMaxBlocks * kMaxBlocks> a{};
  std::array<double, kMaxBlocks> b{};
  double& A(std::size_t i, std::size_t j) { return a[i * kMaxBlocks + j]; }

  // A block that does not take part keeps a row of the identity.
  void Exclude(std::size_t k) {
    for (std::size_t i = 0; i < size; ++i) A(i, k) = A(k, i) = 0;
    A(k, k) = 1;
    b[k] = 0;
  }

  // b becomes the solution; false when the matrix is not safely positive definite.
  bool Solve() {
    for (std::size_t j = 0; j < size; ++j) {
      const double diagonal = A(j, j);
      double pivot = diagonal;
      for (std::size_t k = 0; k < j; ++k) pivot -= A(j, k) * A(j, k);
      if (!(pivot > 1e-9 * diagonal)) return false;
      A(j, j) = std::sqrt(pivot);
      for (std::size_t i = j + 1; i < size; ++i) {
        double sum = A(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= A(i, k) * A(j, k);
        A(i, j) = sum / A(j, j);
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t k = 0; k < i; ++k) b[i] -= A(i, k) * b[k];
      b[i] /= A(i, i);
    }
    for (std::size_t i = size; i-- > 0;) {
      for (std::size_t k = i + 1; k < size; ++k) b[i] -= A(k, i) * b[k];
      b[i] /= A(i, i);
    }
    return true;
  }
};

}  // namespace

std::vector<double> RotatedMetric(std::span<const double> u, std::span<const float> m, double damping,
                                  std::size_t n) {
  std::vector<double> um(n * n, 0.0), mz(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) um[i * n + j] += u[i * n + k] * static_cast<double>(m[k * n + j]);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < n; ++k) mz[i * n + j] += um[i * n + k] * u[j * n + k];
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += mz[i * n + i];
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) mz[i * n + j] = mz[j * n + i] = (mz[i * n + j] + mz[j * n + i]) / 2;
    mz[i * n + i] += damping * trace / static_cast<double>(n);
  }
  return mz;
}

FeedbackFactor FactorMetric(std::vector<double> mz, std::size_t n) {
  FeedbackFactor f{std::vector<double>(n), std::vector<double>(n * n, 0.0)};
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += mz[i * n + i] / static_cast<double>(n);
  // From the last column back: column j of V is what is left of it over the pivot.
  for (std::size_t j = n; j-- > 0;) {
    const double pivot = mz[j * n + j];
    if (!(pivot > kSmallestPivot * mean))
      throw Error("the rounding metric is not positive definite at rotated channel " + std::to_string(j) +
                  " (pivot " + std::to_string(pivot) + "): use a larger damping");
    f.pivots[j] = pivot;
    for (std::size_t i = 0; i < j; ++i)
      for (std::size_t k = 0; k <= i; ++k) mz[k * n + i] -= mz[i * n + j] / pivot * mz[k * n + j];
    for (std::size_t i = 0; i < j; ++i) mz[i * n + j] /= pivot;
  }
  // V^-1, rows from the last up: row i = e_i - sum over k > i of V_ik row k.
  for (std::size_t i = n; i-- > 0;) {
    f.coefficients[i * n + i] = 1;
    for (std::size_t k = i + 1; k < n; ++k)
      for (std::size_t j = k; j < n; ++j)
        f.coefficients[i * n + j] -= mz[i * n + k] * f.coefficients[k * n + j];
  }
  return f;
}

FeedbackRounding::FeedbackRounding(const CodecSpec& spec, std::span<const double> damped_mz, int rounds)
    : n_(static_cast<std::size_t>(spec.head_dim)),
      block_(static_cast<std::size_t>(spec.block)),
      num_blocks_(static_cast<std::size_t>(spec.num_blocks())),
      grid_(&GridFor(spec.grid, spec.bits)),
      rounds_(rounds),
      mz_(damped_mz.begin(), damped_mz.end()) {
  if (rounds > 0 && spec.num_blocks() > kMaxRefinedBlocks)
    throw Error("refined rounding has " + std::to_string(spec.num_blocks()) +
                " blocks per row, expected at most " + std::to_string(kMaxRefinedBlocks) +
                ": use larger blocks");
  const FeedbackFactor factor = FactorMetric({damped_mz.begin(), damped_mz.end()}, n_);
  coefficients_.assign(factor.coefficients.begin(), factor.coefficients.end());
}

void FeedbackRounding::Round(std::span<const float> z, std::span<BlockScale> scales,
                             std::span<std::uint8_t> codes) const noexcept {
  PushErrorsOn(z, scales, codes);
  for (int round = 0; round < rounds_; ++round) {
    RefitScales(z, scales, codes);
    Sweep(z, scales, codes);
  }
}

void FeedbackRounding::PushErrorsOn(std::span<const float> z, std::span<const BlockScale> scales,
                                    std::span<std::uint8_t> codes) const noexcept {
  std::array<float, kMaxHeadDim> target;
  std::copy(z.begin(), z.end(), target.begin());
  for (std::size_t i = 0; i < n_; ++i) {
    const BlockScale& scale = scales[i / block_];
    codes[i] = scale.value == 0 ? grid_->zero_code : NearestCode(*grid_, target[i] * Inverse(scale));
    const float error = target[i] - scale.value * grid_->levels[codes[i]];
    const float* row = coefficients_.data() + i * n_;
    for (std::size_t j = i + 1; j < n_; ++j) target[j] -= error * row[j];
  }
}

// Minimizes (sum_b s_b g_b - z)^T Mz (sum_b s_b g_b - z) over the scales; g_b: the levels of block b.
void FeedbackRounding::RefitScales(std::span<const float> z, std::span<BlockScale> scales,
                                   std::span<const std::uint8_t> codes) const noexcept {
  std::array<float, kMaxHeadDim> storage;
  const std::span<float> g = std::span(storage).first(n_);
  for (std::size_t i = 0; i < n_; ++i) g[i] = grid_->levels[codes[i]];
  NormalEquations eq{num_blocks_};
  for (std::size_t i = 0; i < n_; ++i) {
    const std::span<const float> row(mz_.data() + i * n_, n_);
    const auto g_i = static_cast<double>(g[i]);
    for (std::size_t c = 0; c < num_blocks_; ++c)
      eq.A(i / block_, c) +=
          g_i * static_cast<double>(FixedDot(row.subspan(c * block_, block_), g.subspan(c * block_, block_)));
    eq.b[i / block_] += g_i * static_cast<double>(FixedDot(row, z));
  }
  for (std::size_t b = 0; b < num_blocks_; ++b)
    if (scales[b].value == 0 || !(eq.A(b, b) > 0)) eq.Exclude(b);
  if (!eq.Solve()) return;
  for (std::size_t b = 0; b < num_blocks_; ++b) {
    const BlockScale refitted = RoundScale(static_cast<float>(eq.b[b]));
    // A scale that vanishes, overflows or turns its sign would be another block, not a better one.
    if (!refitted.overflow && refitted.value * scales[b].value > 0) scales[b] = refitted;
  }
}

// One coordinate after the other to the level that is best given all others.
void FeedbackRounding::Sweep(std::span<const float> z, std::span<const BlockScale> scales,
                             std::span<std::uint8_t> codes) const noexcept {
  std::array<float, kMaxHeadDim> error_storage, slope;  // e = zhat - z, Mz e
  const std::span<float> error = std::span(error_storage).first(n_);
  for (std::size_t i = 0; i < n_; ++i) error[i] = scales[i / block_].value * grid_->levels[codes[i]] - z[i];
  for (std::size_t i = 0; i < n_; ++i) slope[i] = FixedDot({mz_.data() + i * n_, n_}, error);
  for (std::size_t i = 0; i < n_; ++i) {
    const BlockScale& scale = scales[i / block_];
    if (scale.value == 0) continue;
    const float* row = mz_.data() + i * n_;
    const float now = scale.value * grid_->levels[codes[i]];
    const std::uint8_t code = NearestCode(*grid_, (now - slope[i] / row[i]) * Inverse(scale));
    if (code == codes[i]) continue;
    const float change = scale.value * grid_->levels[code] - now;
    codes[i] = code;
    for (std::size_t j = 0; j < n_; ++j) slope[j] += row[j] * change;
  }
}

}  // namespace so4cal
