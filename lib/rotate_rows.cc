// SPDX-License-Identifier: Apache-2.0
#include "lib/rotate_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "lib/error.h"
#include "lib/fwht.h"
#include "lib/quantize_block.h"

namespace so4cal {
namespace {

constexpr std::size_t kMaxHeadDim = 1024;

std::size_t Section(const RotationF32& r) { return static_cast<std::size_t>(PowerOfTwoPart(r.head_dim)); }

void ApplySigns(const std::vector<float>& signs, std::span<float> x) noexcept {
  for (std::size_t base = 0; !signs.empty() && base < x.size(); base += signs.size())
    for (std::size_t i = 0; i < signs.size(); ++i) x[base + i] *= signs[i];
}

// U x by rows of U: dot products in the fixed order of FixedDot.
void ApplyDense(const std::vector<float>& u, std::span<float> row) noexcept {
  std::array<float, kMaxHeadDim> in;
  const std::size_t n = row.size();
  std::copy(row.begin(), row.end(), in.begin());
  for (std::size_t i = 0; i < n; ++i)
    row[i] = FixedDot(std::span(u).subspan(i * n, n), std::span(in).first(n));
}

// U^T z as a sum of rows of U, in ascending order.
void ApplyDenseTransposed(const std::vector<float>& u, std::span<float> row) noexcept {
  std::array<float, kMaxHeadDim> in;
  const std::size_t n = row.size();
  std::copy(row.begin(), row.end(), in.begin());
  std::fill(row.begin(), row.end(), 0.0f);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) row[j] += u[i * n + j] * in[i];
}

// The same transform in double, one column at a time.
void RotateInDouble(const RotationF32& r, std::span<double> v) {
  for (std::size_t i = 0; i < r.signs.size(); ++i) v[i] *= static_cast<double>(r.signs[i]);
  if (r.hadamard) {
    HeadTransform hadamard;
    hadamard.head_dim = r.head_dim;
    hadamard.hadamard = true;
    const std::vector<double> in(v.begin(), v.end());
    ForwardExact(hadamard, in, v);
  }
  const std::size_t num_blocks = v.size() / 4;
  for (const BlockStage& stage : r.forward)
    for (std::size_t i = 0; i < num_blocks; ++i) {
      const auto stride = static_cast<std::size_t>(stage.stride);
      double* p = v.data() + FirstChannel(static_cast<int>(i), stage.stride);
      const double in[4] = {p[0], p[stride], p[2 * stride], p[3 * stride]};
      for (std::size_t row = 0; row < 4; ++row) {
        double sum = 0;
        for (std::size_t k = 0; k < 4; ++k)
          sum += static_cast<double>(stage.coefficients[(4 * row + k) * num_blocks + i]) * in[k];
        p[row * stride] = sum;
      }
    }
}

}  // namespace

void RotationF32::AddStage(BlockStage stage) {
  inverse.insert(inverse.begin(), Transposed(stage));
  forward.push_back(std::move(stage));
}

RotationF32 MakeRotationF32(const HeadTransform& t) {
  RotationF32 r;
  r.head_dim = t.head_dim;
  r.hadamard = t.hadamard;
  r.signs.assign(t.signs.begin(), t.signs.end());
  r.offset = t.offset;
  for (const double v : t.dense) r.dense.push_back(static_cast<float>(v));
  for (const Stage& stage : t.stages) {
    std::vector<float> blocks;
    for (const So4& block : stage.blocks)
      for (const double v : ToMatrix(block)) blocks.push_back(static_cast<float>(v));
    r.AddStage(StageFromBlocks(stage.stride, blocks));
  }
  return r;
}

std::vector<double> DenseMatrix(const RotationF32& r) {
  if (!r.dense.empty()) return {r.dense.begin(), r.dense.end()};
  const auto n = static_cast<std::size_t>(r.head_dim);
  std::vector<double> u(n * n), column(n);
  for (std::size_t j = 0; j < n; ++j) {
    std::fill(column.begin(), column.end(), 0.0);
    column[j] = 1;
    RotateInDouble(r, column);
    for (std::size_t i = 0; i < n; ++i) u[i * n + j] = column[i];
  }
  return u;
}

void SubtractOffset(const RotationF32& r, std::span<float> x) noexcept {
  for (std::size_t base = 0; !r.offset.empty() && base < x.size(); base += r.offset.size())
    for (std::size_t i = 0; i < r.offset.size(); ++i) x[base + i] -= r.offset[i];
}

void AddOffset(const RotationF32& r, std::span<float> x) noexcept {
  for (std::size_t base = 0; !r.offset.empty() && base < x.size(); base += r.offset.size())
    for (std::size_t i = 0; i < r.offset.size(); ++i) x[base + i] += r.offset[i];
}

void RotateRows(const RotationF32& r, std::span<float> x) noexcept {
  const auto n = static_cast<std::size_t>(r.head_dim);
  SO4CAL_CHECK(x.size() % n == 0);
  if (!r.dense.empty()) {
    for (std::size_t base = 0; base < x.size(); base += n) ApplyDense(r.dense, x.subspan(base, n));
    return;
  }
  ApplySigns(r.signs, x);
  if (r.hadamard) Fwht(x, Section(r));
  for (const BlockStage& stage : r.forward) ApplyStage(stage, r.head_dim, x);
}

void UnrotateRows(const RotationF32& r, std::span<float> z) noexcept {
  const auto n = static_cast<std::size_t>(r.head_dim);
  SO4CAL_CHECK(z.size() % n == 0);
  if (!r.dense.empty()) {
    for (std::size_t base = 0; base < z.size(); base += n) ApplyDenseTransposed(r.dense, z.subspan(base, n));
    return;
  }
  for (const BlockStage& stage : r.inverse) ApplyStage(stage, r.head_dim, z);
  if (r.hadamard) Fwht(z, Section(r));
  ApplySigns(r.signs, z);
}

}  // namespace so4cal
