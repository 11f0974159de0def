// SPDX-License-Identifier: Apache-2.0
#include "lib/attention.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/reference/attention.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

HeadCodec Codec(int head_dim, int bits, GridKind grid, unsigned seed) {
  CodecSpec spec;
  spec.head_dim = head_dim;
  spec.bits = bits;
  spec.block = 16;
  spec.grid = grid;
  HeadTable table;
  table.transform = RandomTransform(head_dim, seed);
  return HeadCodec(spec, table);
}

std::vector<std::uint8_t> Rows(const HeadCodec& codec, const std::vector<float>& x) {
  const auto n = static_cast<std::size_t>(codec.spec().head_dim);
  std::vector<std::uint8_t> rows(x.size() / n * codec.spec().row_bytes());
  EXPECT_TRUE(codec.Encode({x.data(), x.size() / n, n, codec.spec().head_dim}, rows).ok());
  return rows;
}

std::vector<double> Decoded(const HeadCodec& codec, std::span<const std::uint8_t> rows) {
  std::vector<float> x_hat(rows.size() / codec.spec().row_bytes() *
                           static_cast<std::size_t>(codec.spec().head_dim));
  EXPECT_TRUE(codec.Decode(rows, x_hat).ok());
  return Widened(x_hat);
}

class AttentionOfHeadDims : public testing::TestWithParam<std::pair<int, int>> {};
INSTANTIATE_TEST_SUITE_P(Dims, AttentionOfHeadDims,
                         testing::Values(std::pair(64, 64), std::pair(80, 80), std::pair(128, 64),
                                         std::pair(256, 256)));

// The decoded keys hold the offset, the packed ones do not: softmax does not see the difference. Values come
// back with their offset added once.
TEST_P(AttentionOfHeadDims, EqualsAttentionOnDecodedRows) {
  const auto [d, dv] = GetParam();
  const HeadCodec keys = Codec(d, 3, GridKind::kLloyd, 80), values = Codec(dv, 4, GridKind::kFull, 90);
  const auto nd = static_cast<std::size_t>(d), ndv = static_cast<std::size_t>(dv);
  const std::size_t num_keys = 37, num_queries = 6;  // more queries than share one pass
  const std::vector<std::uint8_t> k = Rows(keys, Noise(num_keys * nd, 81)),
                                  v = Rows(values, Noise(num_keys * ndv, 82));
  const std::vector<float> q = Noise(num_queries * nd, 83);
  std::vector<float> out(num_queries * ndv);
  ASSERT_TRUE(Attention(keys, values, k, v, 0.25f, q, out).ok());
  for (std::size_t j = 0; j < num_queries; ++j) {
    const std::vector<double> want = reference::Attention(Decoded(keys, k), Decoded(values, v), ndv, 0.25,
                                                          Widened(std::span(q).subspan(j * nd, nd)));
    // Logits reach about 20 and carry 1e-6 of float rounding each way; outputs are of order 1.
    for (std::size_t i = 0; i < ndv; ++i) ASSERT_NEAR(out[j * ndv + i], want[i], 3e-5) << j << " " << i;
  }
}

// Without quantization, in double: q.k = (U q).(U (k - mu)) + q.mu, and attention is unchanged by both maps.
TEST_P(AttentionOfHeadDims, IdentitiesHoldInDouble) {
  const auto [d, dv] = GetParam();
  const HeadTransform key_map = RandomTransform(d, 84), value_map = RandomTransform(dv, 94);
  HeadTransform query_map = key_map;
  query_map.offset.clear();
  const auto nd = static_cast<std::size_t>(d), ndv = static_cast<std::size_t>(dv);
  const std::size_t num_keys = 20;
  const std::vector<double> k = Widened(Noise(num_keys * nd, 85)), v = Widened(Noise(num_keys * ndv, 86));
  const std::vector<double> q = Widened(Noise(nd, 87));
  std::vector<double> zk(k.size()), zv(v.size()), zq(nd);
  ForwardExact(query_map, q, zq);
  double q_norm = 0, q_mu = 0;
  for (std::size_t i = 0; i < nd; ++i) {
    q_norm += q[i] * q[i];
    q_mu += q[i] * static_cast<double>(key_map.offset[i]);
  }
  for (std::size_t s = 0; s < num_keys; ++s) {
    ForwardExact(key_map, std::span(k).subspan(s * nd, nd), std::span(zk).subspan(s * nd, nd));
    ForwardExact(value_map, std::span(v).subspan(s * ndv, ndv), std::span(zv).subspan(s * ndv, ndv));
    double raw = 0, rotated = q_mu, k_norm = 0;
    for (std::size_t i = 0; i < nd; ++i) {
      raw += q[i] * k[s * nd + i];
      rotated += zq[i] * zk[s * nd + i];
      k_norm += k[s * nd + i] * k[s * nd + i];
    }
    EXPECT_NEAR(rotated, raw, 1e-12 * std::sqrt(q_norm * k_norm));
  }
  const std::vector<double> want = reference::Attention(k, v, ndv, 0.125, q);
  std::vector<double> out = reference::Attention(zk, zv, ndv, 0.125, zq);
  InverseExact(value_map, std::vector<double>(out), out);
  for (std::size_t i = 0; i < ndv; ++i) EXPECT_NEAR(out[i], want[i], 1e-12);
}

// One key: its value comes back whatever the score, huge scores included.
TEST(Attention, OneKeyAndLargeScores) {
  const HeadCodec codec = Codec(64, 4, GridKind::kLloyd, 88);
  const std::vector<std::uint8_t> rows = Rows(codec, Noise(64, 89));
  const std::vector<double> want = Decoded(codec, rows);
  std::vector<float> q(64, 1e30f), out(64);
  ASSERT_TRUE(Attention(codec, codec, rows, rows, 1, q, out).ok());
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(out[i], want[i], 1e-5);
}

TEST(Attention, RefusesBadQueriesAndRowsAndWritesNothing) {
  const HeadCodec codec = Codec(64, 3, GridKind::kSymmetric, 91);
  std::vector<std::uint8_t> rows = Rows(codec, Noise(64 * 4, 92));
  std::vector<float> q(64 * 2, 1.0f), out(64 * 2, 42.0f);
  q[64 + 9] = std::numeric_limits<float>::quiet_NaN();
  RowStatus status = Attention(codec, codec, rows, rows, 1, q, out);
  EXPECT_EQ(status.error, RowError::kNotFinite);
  EXPECT_EQ(status.row, 1u);
  EXPECT_EQ(status.channel, 9);
  q[64 + 9] = 1;
  std::vector<std::uint8_t> bad = rows;
  bad[3 * codec.spec().row_bytes() + 1] = 0x7c;  // scale of row 3 is infinite
  bad[3 * codec.spec().row_bytes()] = 0;
  for (const bool bad_keys : {true, false}) {
    status = Attention(codec, codec, bad_keys ? bad : rows, bad_keys ? rows : bad, 1, q, out);
    EXPECT_EQ(status.error, RowError::kInvalidScale);
    EXPECT_EQ(status.row, 3u);
  }
  EXPECT_THAT(out, testing::Each(42.0f));
}

}  // namespace
}  // namespace so4cal
