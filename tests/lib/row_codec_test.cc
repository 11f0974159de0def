// SPDX-License-Identifier: Apache-2.0
#include "lib/row_codec.h"

#include <gmock/gmock.h>

#include <limits>

#include "lib/distortion.h"
#include "tests/reference/quantizer.h"
#include "tests/support/each_target.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::Each;
using testing::ElementsAre;

HeadTable TableOf(const HeadTransform& transform) {
  HeadTable table;
  table.transform = transform;
  return table;
}

HeadTable Plain(int head_dim) {
  HeadTransform t;
  t.head_dim = head_dim;
  return TableOf(t);
}

CodecSpec Spec(int head_dim, int bits, int block, GridKind grid, ScaleRule scale) {
  return {head_dim, bits, block, grid, scale};
}

HeadView View(const std::vector<float>& x, int head_dim) {
  const auto n = static_cast<std::size_t>(head_dim);
  return {x.data(), x.size() / n, n, head_dim};
}

std::vector<std::uint8_t> Encoded(const HeadCodec& codec, const std::vector<float>& x) {
  const HeadView view = View(x, codec.spec().head_dim);
  std::vector<std::uint8_t> rows(view.num_tokens * codec.spec().row_bytes());
  EXPECT_TRUE(codec.Encode(view, rows).ok());
  return rows;
}

std::vector<int> BlocksFor(int head_dim) {
  std::vector<int> blocks;
  for (const int block : {4, 16, 32, 64, head_dim})
    if (head_dim % block == 0) blocks.push_back(block);
  return blocks;
}

void ForEachSpec(int head_dim, auto body) {
  for (const auto& grid : GridKinds())
    for (const auto& scale : ScaleRules())
      for (const int bits : {2, 3, 4})
        for (const int block : BlocksFor(head_dim)) {
          const CodecSpec spec = Spec(head_dim, bits, block, grid.value, scale.value);
          SCOPED_TRACE(std::string(grid.name) + " " + std::string(scale.name) + " bits " +
                       std::to_string(bits) + " block " + std::to_string(block));
          body(spec);
        }
}

// lib/CODEC.md, "Worked example": scale 1, levels 3 -3 2 -2 1 -1 0 and 0.5, a tie that goes up to 1.
TEST(RowCodec, WorkedExample) {
  const std::vector<float> x = {3, -3, 2, -2, 1, -1, 0, 0.5f};
  const HeadCodec codec(Spec(8, 3, 8, GridKind::kSymmetric, ScaleRule::kAbsmax), Plain(8));
  const std::vector<std::uint8_t> row = Encoded(codec, x);
  EXPECT_THAT(row, ElementsAre(0x00, 0x3c, 0x52, 0x38, 0x95));
  std::vector<float> x_hat(8);
  ASSERT_TRUE(codec.Decode(row, x_hat).ok());
  EXPECT_THAT(x_hat, ElementsAre(3, -3, 2, -2, 1, -1, 0, 1));
}

class RowCodecOfHeadDim : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Dims, RowCodecOfHeadDim, testing::ValuesIn(kHeadDims));

// Every grid, width, scale rule and block: the decoder agrees with a reader written from the description, and
// more bits mean less error.
TEST_P(RowCodecOfHeadDim, DecodesWhatTheRowsSay) {
  const HeadTable table = TableOf(RandomTransform(GetParam(), 60));
  const auto n = static_cast<std::size_t>(GetParam());
  const std::vector<float> x = Noise(5 * n, 61);
  ForEachSpec(GetParam(), [&](const CodecSpec& spec) {
    const HeadCodec codec(spec, table);
    const std::vector<std::uint8_t> rows = Encoded(codec, x);
    std::vector<float> z_hat(x.size()), x_hat(x.size());
    ASSERT_TRUE(codec.DecodeRotated(rows, z_hat).ok());
    ASSERT_TRUE(codec.Decode(rows, x_hat).ok());
    for (std::size_t t = 0; t < 5; ++t) {
      const std::vector<double> want =
          reference::DecodeRotatedRow(spec, std::span(rows).subspan(t * spec.row_bytes(), spec.row_bytes()));
      std::vector<double> want_x(n);
      InverseExact(table.transform, want, want_x);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(z_hat[t * n + i], static_cast<float>(want[i]));  // one rounding of one product
        ASSERT_NEAR(x_hat[t * n + i], want_x[i], 2e-5);            // some 20 roundings of values up to 10
      }
    }
  });
}

TEST_P(RowCodecOfHeadDim, ErrorIsThatOfNormalDataAndFallsWithBits) {
  const HeadTable table = TableOf(RandomTransform(GetParam(), 62));
  const auto n = static_cast<std::size_t>(GetParam());
  const std::vector<float> x = Noise(50 * n, 63);
  for (const auto& grid : GridKinds())
    for (const auto& scale : ScaleRules()) {
      double previous = 1;
      for (const int bits : {2, 3, 4}) {
        const HeadCodec codec(Spec(GetParam(), bits, 8, grid.value, scale.value), table);
        std::vector<float> x_hat(x.size());
        ASSERT_TRUE(codec.Decode(Encoded(codec, x), x_hat).ok());
        Distortion d;
        d.Add(x, x_hat, {});
        EXPECT_LT(d.nmse(), previous / 1.6) << grid.name << " " << scale.name << " " << bits;
        previous = d.nmse();
      }
    }
}

TEST_P(RowCodecOfHeadDim, SameBitsOnEveryTargetAndNearTheExactTransform) {
  const HeadTable table = TableOf(RandomTransform(GetParam(), 64));
  const auto n = static_cast<std::size_t>(GetParam());
  const HeadCodec codec(Spec(GetParam(), 3, 8, GridKind::kLloyd, ScaleRule::kMse), table);
  const std::vector<float> x = Noise(70 * n, 65);  // more rows than one tile
  std::vector<std::uint8_t> first_rows;
  std::vector<float> first_z, first_x;
  ForEachTarget([&] {
    const std::vector<std::uint8_t> rows = Encoded(codec, x);
    std::vector<float> z = x, x_hat(x.size());
    codec.Rotate(z);
    ASSERT_TRUE(codec.Decode(rows, x_hat).ok());
    if (first_rows.empty()) {
      first_rows = rows;
      first_z = z;
      first_x = x_hat;
    }
    EXPECT_EQ(rows, first_rows);
    EXPECT_EQ(z, first_z);
    EXPECT_EQ(x_hat, first_x);
  });
  // log2(p) + 4 stages, each rounding values of up to about 6 a few times: below 1e-5 with room.
  for (std::size_t t = 0; t < 70; ++t) {
    std::vector<double> want(n);
    ForwardExact(table.transform, Widened(std::span(x).subspan(t * n, n)), want);
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(first_z[t * n + i], want[i], 1e-5);
  }
}

TEST_P(RowCodecOfHeadDim, UnrotateUndoesRotateAndQueriesKeepTheirInnerProducts) {
  const HeadTable table = TableOf(RandomTransform(GetParam(), 66));
  const auto n = static_cast<std::size_t>(GetParam());
  const HeadCodec codec(Spec(GetParam(), 3, 8, GridKind::kLloyd, ScaleRule::kMse), table);
  const std::vector<float> k = Noise(n, 67), q = Noise(n, 68);
  std::vector<float> z = k, rotated_q = q;
  codec.Rotate(z);
  codec.RotateQuery(rotated_q);
  double in_raw = 0, in_rotated = 0;
  for (std::size_t i = 0; i < n; ++i) {
    in_raw += static_cast<double>(q[i]) *
              (static_cast<double>(k[i]) - static_cast<double>(table.transform.offset[i]));
    in_rotated += static_cast<double>(rotated_q[i]) * static_cast<double>(z[i]);
  }
  EXPECT_NEAR(in_rotated, in_raw, 1e-6 * static_cast<double>(n));
  codec.Unrotate(z);
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(z[i], k[i], 1e-5);
}

TEST(RowCodec, ADenseMatrixDoesWhatItsFactorsDo) {
  const HeadTransform factors = RandomTransform(80, 69);
  HeadTransform dense;
  dense.head_dim = 80;
  dense.dense = DenseMatrix(factors);
  dense.offset = factors.offset;
  HeadTable table = TableOf(dense);
  table.chosen = Chosen::kDense;
  const CodecSpec spec = Spec(80, 4, 16, GridKind::kFull, ScaleRule::kMse);
  std::vector<float> a = Noise(800, 70), b = a;
  const std::vector<float> x = a;
  HeadCodec(spec, table).Rotate(a);
  HeadCodec(spec, TableOf(factors)).Rotate(b);
  EXPECT_THAT(a, testing::Pointwise(testing::FloatNear(1e-5f), b));
  HeadCodec(spec, table).Unrotate(a);
  EXPECT_THAT(a, testing::Pointwise(testing::FloatNear(1e-5f), x));
}

TEST(RowCodec, ChosenIdentityRotatesNothingAndKeepsTheOffset) {
  HeadTable table = TableOf(RandomTransform(16, 71));
  table.chosen = Chosen::kIdentity;
  std::vector<float> x = Noise(16, 72), want = x;
  for (std::size_t i = 0; i < 16; ++i) want[i] -= table.transform.offset[i];
  HeadCodec(Spec(16, 3, 16, GridKind::kLloyd, ScaleRule::kMse), table).Rotate(x);
  EXPECT_EQ(x, want);
}

// Law: without a rotation the absmax scale of decoded values is the scale itself, so encoding them again
// gives the same bytes.
TEST(RowCodec, EncodingDecodedRowsAgainChangesNothing) {
  for (const auto& grid : GridKinds())
    for (const int bits : {2, 3, 4}) {
      const HeadCodec codec(Spec(64, bits, 32, grid.value, ScaleRule::kAbsmax), Plain(64));
      const std::vector<std::uint8_t> rows = Encoded(codec, Noise(64 * 50, 73));
      std::vector<float> x_hat(64 * 50);
      ASSERT_TRUE(codec.Decode(rows, x_hat).ok());
      EXPECT_EQ(Encoded(codec, x_hat), rows) << grid.name << bits;
    }
}

TEST(RowCodec, TokensMayLieApart) {
  const HeadCodec codec(Spec(16, 3, 16, GridKind::kLloyd, ScaleRule::kMse), TableOf(RandomTransform(16, 74)));
  const std::vector<float> wide = Noise(10 * 50, 75);
  std::vector<float> packed;
  for (std::size_t t = 0; t < 10; ++t) packed.insert(packed.end(), &wide[t * 50 + 3], &wide[t * 50 + 19]);
  std::vector<std::uint8_t> rows(10 * codec.spec().row_bytes());
  ASSERT_TRUE(codec.Encode({wide.data() + 3, 10, 50, 16}, rows).ok());
  EXPECT_EQ(rows, Encoded(codec, packed));
  EXPECT_TRUE(codec.Encode({nullptr, 0, 16, 16}, {}).ok());  // no tokens
  EXPECT_TRUE(codec.Decode({}, {}).ok());
}

// Zeros, a spike, all equal, subnormal, and the largest and smallest scales that fp16 holds.
TEST(RowCodec, UnusualButFiniteRowsComeBack) {
  ForEachSpec(16, [](const CodecSpec& spec) {
    const HeadCodec codec(spec, Plain(16));
    const auto largest_error = [&](const std::vector<float>& x) {
      std::vector<float> x_hat(16);
      EXPECT_TRUE(codec.Decode(Encoded(codec, x), x_hat).ok());
      float worst = 0;
      for (std::size_t i = 0; i < 16; ++i) worst = std::max(worst, std::abs(x_hat[i] - x[i]));
      return worst;
    };
    std::vector<float> spike(16, 0.0f);
    EXPECT_EQ(largest_error(spike), 0);
    spike[5] = -7.25f;
    // `lloyd` has no level 0: with one scale for all it may give up most of a spike, but never more than all.
    EXPECT_LE(largest_error(spike), spec.grid == GridKind::kLloyd ? 7.25f : 0.01f);
    EXPECT_LE(largest_error(std::vector<float>(16, 3.0f)), 0.01f);     // fp16 scale: 3 * 2^-11
    EXPECT_EQ(largest_error(std::vector<float>(16, 1e-42f)), 1e-42f);  // decoded as 0
    EXPECT_LE(largest_error(std::vector<float>(16, 60000.0f)), 60.0f);
  });
}

TEST(RowCodec, RefusesWhatIsNotFiniteAndWritesNothing) {
  const HeadCodec codec(Spec(16, 3, 8, GridKind::kLloyd, ScaleRule::kMse), TableOf(RandomTransform(16, 76)));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = Noise(16 * 9, 77);
    x[16 * 7 + 5] = bad;
    std::vector<std::uint8_t> rows(9 * codec.spec().row_bytes(), 0xab);
    const RowStatus status = codec.Encode(View(x, 16), rows);
    EXPECT_EQ(status.error, RowError::kNotFinite);
    EXPECT_EQ(status.row, 7u);
    EXPECT_EQ(status.channel, 5);
    EXPECT_THAT(rows, Each(0xab));
  }
}

TEST(RowCodec, RefusesScalesBeyondFp16AndWritesNothing) {
  for (const auto& rule : ScaleRules())
    for (const float huge : {4e5f, 1e20f, 3e38f}) {
      const HeadCodec codec(Spec(16, 3, 8, GridKind::kLloyd, rule.value), Plain(16));
      std::vector<float> x = Noise(16 * 3, 78);
      x[16 * 2 + 9] = huge;
      x[16 * 2 + 10] = -huge;
      std::vector<std::uint8_t> rows(3 * codec.spec().row_bytes(), 0xab);
      const RowStatus status = codec.Encode(View(x, 16), rows);
      EXPECT_EQ(status.error, RowError::kScaleOverflow) << huge;
      EXPECT_EQ(status.row, 2u);
      EXPECT_EQ(status.channel, 8);  // the block's first
      EXPECT_THAT(rows, Each(0xab));
    }
  // Large, but its scale fits: 1e5 / 2.15.
  const HeadCodec codec(Spec(16, 3, 8, GridKind::kLloyd, ScaleRule::kMse), Plain(16));
  std::vector<std::uint8_t> row(codec.spec().row_bytes());
  EXPECT_TRUE(codec.Encode(View(std::vector<float>(16, 1e5f), 16), row).ok());
  // Sums of the rotation overflow although the input is finite.
  HeadTable hadamard = Plain(16);
  hadamard.transform.hadamard = true;
  EXPECT_EQ(HeadCodec(codec.spec(), hadamard).Encode(View(std::vector<float>(16, 3e38f), 16), row).error,
            RowError::kScaleOverflow);
}

TEST(RowCodec, DecoderRefusesInvalidCodesAndScalesAndWritesNothing) {
  const HeadCodec codec(Spec(16, 3, 8, GridKind::kSymmetric, ScaleRule::kAbsmax), Plain(16));
  const std::vector<std::uint8_t> good = Encoded(codec, Noise(16 * 3, 79));
  const std::size_t row_bytes = codec.spec().row_bytes();
  std::vector<float> out(16 * 3, 42.0f);
  std::vector<std::uint8_t> bad = good;
  bad[row_bytes + 4 + 2] = 0xff;       // row 1, codes 8 to 11: low bits 3
  bad[row_bytes + 4 + 4 + 1] |= 0x04;  // code 10: high bit 1, together 7, which `symmetric` leaves unused
  bad[row_bytes + 4 + 4 + 1] = static_cast<std::uint8_t>(bad[row_bytes + 4 + 4 + 1] & 0xf4);
  RowStatus status = codec.Decode(bad, out);
  EXPECT_EQ(status.error, RowError::kInvalidCode);
  EXPECT_EQ(status.row, 1u);
  EXPECT_EQ(status.channel, 10);
  EXPECT_THAT(out, Each(42.0f));
  for (const int half : {0x7c00, 0xfc00, 0x7c01, 0xffff}) {
    bad = good;
    bad[2 * row_bytes + 2] = static_cast<std::uint8_t>(half & 0xff);
    bad[2 * row_bytes + 3] = static_cast<std::uint8_t>(half >> 8);
    status = codec.DecodeRotated(bad, out);
    EXPECT_EQ(status.error, RowError::kInvalidScale);
    EXPECT_EQ(status.row, 2u);
    EXPECT_EQ(status.channel, 8);
    EXPECT_THAT(out, Each(42.0f));
  }
}

TEST(RowCodec, RefusesSpecsAndTablesThatDoNotFit) {
  EXPECT_THROW(HeadCodec(Spec(16, 5, 8, GridKind::kLloyd, ScaleRule::kMse), Plain(16)), Error);
  EXPECT_THROW(HeadCodec(Spec(16, 3, 5, GridKind::kLloyd, ScaleRule::kMse), Plain(16)), Error);
  EXPECT_THROW(HeadCodec(Spec(16, 3, 8, GridKind::kLloyd, ScaleRule::kMse), Plain(24)), Error);
  EXPECT_THROW(HeadCodec(Spec(12, 3, 4, GridKind::kLloyd, ScaleRule::kMse), Plain(12)), Error);
}

}  // namespace
}  // namespace so4cal
