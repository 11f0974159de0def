// SPDX-License-Identifier: Apache-2.0
#include "lib/attend_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/decode_rows.h"
#include "lib/half.h"
#include "tests/reference/attention.h"
#include "tests/support/each_target.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

struct Shape {
  int key_dim, key_block, value_dim, value_block, bits;
  GridKind grid;
};

// Rows of random codes, every scale between 0.1 and 1.1.
std::vector<std::uint8_t> RandomRows(const CodecSpec& spec, std::size_t num_rows, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> rows(num_rows * spec.row_bytes());
  for (std::uint8_t& byte : rows) byte = static_cast<std::uint8_t>(random());
  for (std::size_t r = 0; r < num_rows; ++r)
    for (std::size_t b = 0; b < static_cast<std::size_t>(spec.num_blocks()); ++b) {
      const std::uint16_t scale = HalfFromFloat(0.1f + static_cast<float>(random() % 1000) / 1000);
      rows[r * spec.row_bytes() + 2 * b] = static_cast<std::uint8_t>(scale & 0xff);
      rows[r * spec.row_bytes() + 2 * b + 1] = static_cast<std::uint8_t>(scale >> 8);
    }
  return rows;
}

std::vector<double> Decoded(const CodecSpec& spec, std::span<const std::uint8_t> rows) {
  std::vector<float> z(rows.size() / spec.row_bytes() * static_cast<std::size_t>(spec.head_dim));
  DecodeRotatedRows(spec, rows, z);
  return Widened(z);
}

class AttendRowsOf : public testing::TestWithParam<Shape> {
 protected:
  CodecSpec keys() const {
    return {GetParam().key_dim, GetParam().bits, GetParam().key_block, GetParam().grid, {}};
  }
  CodecSpec values() const {
    return {GetParam().value_dim, GetParam().bits, GetParam().value_block, GetParam().grid, {}};
  }
  std::size_t d() const { return static_cast<std::size_t>(GetParam().key_dim); }
  std::size_t dv() const { return static_cast<std::size_t>(GetParam().value_dim); }
};
INSTANTIATE_TEST_SUITE_P(
    Shapes, AttendRowsOf,
    testing::Values(Shape{64, 32, 64, 32, 3, GridKind::kLloyd}, Shape{128, 128, 64, 16, 2, GridKind::kFull},
                    Shape{80, 16, 80, 8, 4, GridKind::kLloyd}, Shape{24, 4, 40, 2, 3, GridKind::kFull},
                    Shape{8, 1, 16, 16, 4, GridKind::kFull}, Shape{256, 64, 256, 128, 3, GridKind::kLloyd}));

// Softmax over scores of order 3, sums over up to 200 rows in float: 1e-5 of values of order 1 is 100
// roundings.
TEST_P(AttendRowsOf, IsAttentionOnDecodedRowsOnEveryTarget) {
  for (const std::size_t num_rows : {1, 63, 64, 65, 200})
    for (std::size_t num_queries = 1; num_queries <= kMaxPassQueries; ++num_queries) {
      const auto k = RandomRows(keys(), num_rows, 1), v = RandomRows(values(), num_rows, 2);
      std::vector<float> q = Noise(num_queries * d(), 3);
      for (float& x : q) x /= std::sqrt(static_cast<float>(d()));
      ForEachTarget([&] {
        SoftmaxState state;
        std::vector<float> sums(num_queries * dv());
        AttendRows(keys(), k, values(), v, q, state, sums);
        for (std::size_t j = 0; j < num_queries; ++j) {
          const auto want = reference::Attention(Decoded(keys(), k), Decoded(values(), v), dv(), 1.0,
                                                 Widened(std::span(q).subspan(j * d(), d())));
          for (std::size_t i = 0; i < dv(); ++i)
            ASSERT_NEAR(sums[j * dv() + i] / state.weight_sum[j], want[i], 1e-5)
                << num_rows << " " << j << " " << i;
        }
      });
    }
}

TEST_P(AttendRowsOf, PiecesGiveTheWhole) {
  const std::size_t num_rows = 150, cut = 70;
  const auto k = RandomRows(keys(), num_rows, 4), v = RandomRows(values(), num_rows, 5);
  const std::vector<float> q = Noise(d(), 6);
  SoftmaxState whole, pieces;
  std::vector<float> once(dv()), twice(dv());
  AttendRows(keys(), k, values(), v, q, whole, once);
  AttendRows(keys(), std::span(k).first(cut * keys().row_bytes()), values(),
             std::span(v).first(cut * values().row_bytes()), q, pieces, twice);
  AttendRows(keys(), std::span(k).subspan(cut * keys().row_bytes()), values(),
             std::span(v).subspan(cut * values().row_bytes()), q, pieces, twice);
  EXPECT_EQ(whole.maximum[0], pieces.maximum[0]);
  for (std::size_t i = 0; i < dv(); ++i)
    EXPECT_NEAR(once[i] / whole.weight_sum[0], twice[i] / pieces.weight_sum[0], 1e-5);
}

TEST_P(AttendRowsOf, ScoresAreInnerProductsOnEveryTarget) {
  const std::size_t num_rows = 130, num_queries = 3;
  const auto k = RandomRows(keys(), num_rows, 7);
  const std::vector<float> q = Noise(num_queries * d(), 8);
  const std::vector<double> z = Decoded(keys(), k);
  ForEachTarget([&] {
    std::vector<float> scores(num_queries * num_rows);
    ScoreRows(keys(), k, q, scores);
    for (std::size_t j = 0; j < num_queries; ++j)
      for (std::size_t t = 0; t < num_rows; ++t) {
        double want = 0, size = 0;
        for (std::size_t i = 0; i < d(); ++i) {
          want += z[t * d() + i] * static_cast<double>(q[j * d() + i]);
          size += std::abs(z[t * d() + i] * static_cast<double>(q[j * d() + i]));
        }
        ASSERT_NEAR(scores[j * num_rows + t], want, 1e-6 * size)
            << j << " " << t;  // 16 roundings of each term
      }
  });
}

// Scores beyond float: infinite ones share the softmax, nothing becomes NaN.
TEST(AttendRows, ScoresThatOverflow) {
  const CodecSpec spec{8, 3, 8, GridKind::kLloyd, {}};
  const auto rows = RandomRows(spec, 20, 9);
  const std::vector<float> q(8, 3e38f);
  ForEachTarget([&] {
    SoftmaxState state;
    std::vector<float> sums(8);
    AttendRows(spec, rows, spec, rows, q, state, sums);
    for (const float sum : sums) EXPECT_TRUE(std::isfinite(sum / state.weight_sum[0]));
  });
}

}  // namespace
}  // namespace so4cal
