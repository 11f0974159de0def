// SPDX-License-Identifier: Apache-2.0
#include "lib/feedback_rounding.h"

#include <string>

#include "lib/encode_tile.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr double kSmallestPivot = 1e-9;  // of the mean diagonal

std::vector<float> PanelMajor(std::span<const double> m, std::size_t n) {
  std::vector<float> panels;
  panels.reserve(n * n);
  for (std::size_t first = 0; first < n; first += kPanelRows)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = first; i < first + kPanelRows; ++i)
        panels.push_back(static_cast<float>(m[i * n + j]));
  return panels;
}

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

RoundingMetric MakeRoundingMetric(const CodecSpec& spec, std::span<const double> damped_mz, int rounds) {
  if (rounds > 0 && spec.num_blocks() > RoundingMetric::kMaxRefinedBlocks)
    throw Error("refined rounding has " + std::to_string(spec.num_blocks()) +
                " blocks per row, expected at most " + std::to_string(RoundingMetric::kMaxRefinedBlocks) +
                ": use larger blocks");
  const auto n = static_cast<std::size_t>(spec.head_dim);
  const FeedbackFactor factor = FactorMetric({damped_mz.begin(), damped_mz.end()}, n);
  return {rounds, PanelMajor(factor.coefficients, n), PanelMajor(damped_mz, n)};
}

}  // namespace so4cal
