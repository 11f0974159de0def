// SPDX-License-Identifier: Apache-2.0
#include "lib/transform.h"

#include <algorithm>
#include <cmath>

#include "lib/error.h"

namespace so4cal {
namespace {

// One block on the quadruple v[0], v[stride], v[2 stride], v[3 stride].
void ApplyBlock(const Matrix4& m, double* v, int stride) {
  double in[4];
  for (int k = 0; k < 4; ++k) in[k] = v[k * stride];
  for (int r = 0; r < 4; ++r) {
    const double* row = m.data() + 4 * r;
    v[r * stride] = row[0] * in[0] + row[1] * in[1] + row[2] * in[2] + row[3] * in[3];
  }
}

void ApplyStage(const Stage& stage, bool inverse, double* v) {
  for (std::size_t i = 0; i < stage.blocks.size(); ++i) {
    const So4 block = inverse ? Inverse(stage.blocks[i]) : stage.blocks[i];
    ApplyBlock(ToMatrix(block), v + FirstChannel(static_cast<int>(i), stage.stride), stage.stride);
  }
}

void ApplyHadamard(std::span<double> v) {
  const std::size_t n = v.size();
  const auto p = static_cast<std::size_t>(PowerOfTwoPart(static_cast<int>(n)));
  for (std::size_t h = 1; h < p; h *= 2)
    for (std::size_t base = 0; base < n; base += 2 * h)
      for (std::size_t i = base; i < base + h; ++i) {
        const double a = v[i], b = v[i + h];
        v[i] = a + b;
        v[i + h] = a - b;
      }
  const double scale = 1 / std::sqrt(static_cast<double>(p));
  for (double& x : v) x *= scale;
}

void ApplySigns(const std::vector<std::int8_t>& signs, std::span<double> v) {
  for (std::size_t i = 0; i < signs.size(); ++i) v[i] *= signs[i];
}

void ApplyDense(const std::vector<double>& u, bool transposed, std::span<const double> in,
                std::span<double> out) {
  const std::size_t n = in.size();
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += (transposed ? u[j * n + i] : u[i * n + j]) * in[j];
    out[i] = sum;
  }
}

// z = U z in place, without the offset.
void Forward(const HeadTransform& t, std::span<double> z) {
  if (!t.dense.empty()) {
    const std::vector<double> y(z.begin(), z.end());
    return ApplyDense(t.dense, /*transposed=*/false, y, z);
  }
  ApplySigns(t.signs, z);
  if (t.hadamard) ApplyHadamard(z);
  for (const Stage& stage : t.stages) ApplyStage(stage, /*inverse=*/false, z.data());
}

}  // namespace

void ForwardExact(const HeadTransform& t, std::span<const double> x, std::span<double> z) {
  const auto n = static_cast<std::size_t>(t.head_dim);
  SO4CAL_CHECK(x.size() == n && z.size() == n);
  for (std::size_t i = 0; i < n; ++i) z[i] = t.offset.empty() ? x[i] : x[i] - t.offset[i];
  Forward(t, z);
}

void InverseExact(const HeadTransform& t, std::span<const double> z, std::span<double> x) {
  const auto n = static_cast<std::size_t>(t.head_dim);
  SO4CAL_CHECK(x.size() == n && z.size() == n);
  const std::vector<double> in(z.begin(), z.end());
  if (!t.dense.empty()) {
    ApplyDense(t.dense, /*transposed=*/true, in, x);
  } else {
    std::copy(in.begin(), in.end(), x.begin());
    for (auto stage = t.stages.rbegin(); stage != t.stages.rend(); ++stage)
      ApplyStage(*stage, /*inverse=*/true, x.data());
    if (t.hadamard) ApplyHadamard(x);
    ApplySigns(t.signs, x);
  }
  for (std::size_t i = 0; i < t.offset.size(); ++i) x[i] += t.offset[i];
}

std::vector<double> DenseMatrix(const HeadTransform& t) {
  if (!t.dense.empty()) return t.dense;
  const auto n = static_cast<std::size_t>(t.head_dim);
  std::vector<double> u(n * n), column(n);
  for (std::size_t j = 0; j < n; ++j) {
    std::fill(column.begin(), column.end(), 0.0);
    column[j] = 1;
    Forward(t, column);
    for (std::size_t i = 0; i < n; ++i) u[i * n + j] = column[i];
  }
  return u;
}

}  // namespace so4cal
