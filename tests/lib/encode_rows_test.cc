// SPDX-License-Identifier: Apache-2.0
#include "lib/encode_rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/reference/encode_row.h"
#include "tests/reference/transform_matrix.h"
#include "tests/support/each_target.h"
#include "tests/support/query_moments.h"

namespace so4cal {
namespace {

constexpr std::size_t kRows = 37;  // full tiles of 16 and 8 tokens, and what is left

// Rows that meet every branch: N(0,1), outliers, zero blocks, all zeros, all equal, ties, tiny values.
std::vector<float> Rows(std::size_t n, unsigned seed) {
  std::vector<float> z = Noise(kRows * n, seed);
  for (std::size_t t = 0; t < kRows; ++t)
    for (std::size_t i = 0; i < n; ++i) {
      float& v = z[t * n + i];
      if (t % 5 == 1 && i % 11 == t % 11) v *= 50;
      if (t % 7 == 2 && i < n / 2) v = 0;
      if (t == 3) v = 0;
      if (t == 4) v = 1.5f;
      if (t == 5) v = 0.5f * static_cast<float>(i % 9) - 2;
      if (t == 6) v *= 1e-6f;
      if (t == 8) v *= 1e-9f;
    }
  return z;
}

std::vector<std::uint8_t> Encoded(const CodecSpec& spec, const RoundingMetric* metric,
                                  std::span<const float> z) {
  std::vector<std::uint8_t> rows(z.size() / static_cast<std::size_t>(spec.head_dim) * spec.row_bytes());
  EncodeRotatedRows(spec, metric, z, rows);
  return rows;
}

void ExpectReferenceBytes(const CodecSpec& spec, const RoundingMetric* metric,
                          const std::optional<reference::RowRounding>& rounding, std::span<const float> z) {
  const auto n = static_cast<std::size_t>(spec.head_dim);
  std::vector<std::uint8_t> want(z.size() / n * spec.row_bytes());
  for (std::size_t t = 0; t < z.size() / n; ++t)
    reference::EncodeRow(spec, rounding, z.subspan(t * n, n),
                         std::span(want).subspan(t * spec.row_bytes(), spec.row_bytes()));
  ForEachTarget([&] {
    EXPECT_EQ(Encoded(spec, metric, z), want);
    EXPECT_EQ(Encoded(spec, metric, z.first(n)),
              std::vector(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(spec.row_bytes())));
  });
}

class EncodeRowsOfHeadDim : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Dims, EncodeRowsOfHeadDim, testing::Values(8, 64, 80, 128));

// The bytes of the plain loops of tests/reference/, on every target, in whole batches and one row at a time.
TEST_P(EncodeRowsOfHeadDim, BytesOfTheReference) {
  const auto n = static_cast<std::size_t>(GetParam());
  const std::vector<double> mz = RotatedMetric(reference::Identity(n), QueryMoments(n, 180), 0.01, n);
  const std::vector<float> z = Rows(n, 181);
  for (const auto& grid : GridKinds())
    for (const auto& scale : ScaleRules())
      for (const int bits : {2, 3, 4}) {
        const int block = bits == 2 ? GetParam() : bits == 3 ? std::min(32, GetParam() & -GetParam()) : 8;
        const CodecSpec spec{GetParam(), bits, block, grid.value, scale.value};
        SCOPED_TRACE(std::string(grid.name) + " " + std::string(scale.name) + " " + std::to_string(bits));
        ExpectReferenceBytes(spec, nullptr, std::nullopt, z);
        for (const int rounds : {0, 2}) {
          const RoundingMetric metric = MakeRoundingMetric(spec, mz, rounds);
          ExpectReferenceBytes(spec, &metric, reference::RowRounding(spec, mz, rounds), z);
        }
      }
}

// Tiles of fewer tokens: 16 at 256 channels, 8 at 512, 4 at 1024.
TEST(EncodeRows, ManyChannels) {
  for (const int head_dim : {256, 512, 1024}) {
    SCOPED_TRACE(head_dim);
    const auto n = static_cast<std::size_t>(head_dim);
    const std::vector<float> z = Noise(21 * n, 186);
    const CodecSpec spec{head_dim, 3, 32, GridKind::kLloyd, ScaleRule::kMse};
    ExpectReferenceBytes(spec, nullptr, std::nullopt, z);
    if (head_dim > 512) continue;        // a factor takes seconds
    std::vector<double> mz(n * n, 0.0);  // tridiagonal, and yet feedback reaches all channels
    for (std::size_t i = 0; i < n; ++i) {
      mz[i * n + i] = 1;
      if (i > 0) mz[i * n + i - 1] = mz[(i - 1) * n + i] = 0.49;
    }
    const RoundingMetric metric = MakeRoundingMetric(spec, mz, 1);
    ExpectReferenceBytes(spec, &metric, reference::RowRounding(spec, mz, 1), z);
  }
}

// Blocks smaller than a panel of rows or than eight channels, up to the most blocks that refinement allows.
TEST(EncodeRows, SmallBlocks) {
  const std::vector<double> mz = RotatedMetric(reference::Identity(64), QueryMoments(64, 182), 0.01, 64);
  const std::vector<float> z = Rows(64, 183);
  for (const int block : {1, 2, 4, 16}) {
    const CodecSpec spec{64, 3, block, GridKind::kFull, ScaleRule::kMse};
    SCOPED_TRACE(block);
    const RoundingMetric metric = MakeRoundingMetric(spec, mz, 3);
    ExpectReferenceBytes(spec, &metric, reference::RowRounding(spec, mz, 3), z);
    ExpectReferenceBytes(spec, nullptr, std::nullopt, z);
  }
}

// A metric of nearly one direction, barely damped: scales that would vanish or turn their sign, and equations
// that can't be solved, are left alone.
TEST(EncodeRows, NearlySingularMetrics) {
  std::vector<float> m(32 * 32);
  const std::vector<float> v = Noise(32, 184);
  for (std::size_t i = 0; i < 32; ++i)
    for (std::size_t j = 0; j < 32; ++j) m[i * 32 + j] = v[i] * v[j];
  const std::vector<float> z = Rows(32, 185);
  for (const double damping : {1e-6, 1e-3})
    for (const auto& grid : GridKinds()) {
      const CodecSpec spec{32, 3, 4, grid.value, ScaleRule::kAbsmax};
      const std::vector<double> mz = RotatedMetric(reference::Identity(32), m, damping, 32);
      const RoundingMetric metric = MakeRoundingMetric(spec, mz, 2);
      ExpectReferenceBytes(spec, &metric, reference::RowRounding(spec, mz, 2), z);
    }
}

}  // namespace
}  // namespace so4cal
