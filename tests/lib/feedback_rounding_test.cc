// SPDX-License-Identifier: Apache-2.0
#include "lib/feedback_rounding.h"

#include <gmock/gmock.h>

#include "lib/error.h"
#include "lib/row_codec.h"
#include "tests/reference/transform_matrix.h"
#include "tests/support/query_moments.h"

namespace so4cal {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

HeadTable TableOf(int head_dim, Rounding rounding, std::vector<float> metric) {
  HeadTable table;
  table.transform = RandomTransform(head_dim, 130);
  table.rounding = rounding;
  if (rounding != Rounding::kNearest) {
    table.metric = std::move(metric);
    table.damping = 0.01f;
  }
  table.rounds = rounding == Rounding::kRefined ? 2 : 0;
  return table;
}

std::vector<std::uint8_t> Rows(const HeadCodec& codec, const std::vector<float>& x) {
  const auto n = static_cast<std::size_t>(codec.spec().head_dim);
  std::vector<std::uint8_t> rows(x.size() / n * codec.spec().row_bytes());
  EXPECT_TRUE(codec.Encode({x.data(), x.size() / n, n, codec.spec().head_dim}, rows).ok());
  return rows;
}

// sum over rows of e^T M e in the raw frame, which is e^T Mz e in the rotated one.
double WeightedError(const HeadCodec& codec, const std::vector<float>& x, const std::vector<float>& m) {
  const auto n = static_cast<std::size_t>(codec.spec().head_dim);
  std::vector<float> x_hat(x.size());
  EXPECT_TRUE(codec.Decode(Rows(codec, x), x_hat).ok());
  double sum = 0;
  for (std::size_t base = 0; base < x.size(); base += n)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        sum += static_cast<double>((x_hat[base + i] - x[base + i]) * m[i * n + j] *
                                   (x_hat[base + j] - x[base + j]));
  return sum;
}

TEST(FeedbackRounding, FactorFollowsTheDefinition) {
  const std::size_t n = 24;
  const std::vector<double> u = reference::TransformMatrix(RandomTransform(24, 131));
  const std::vector<float> m = QueryMoments(n, 132);
  const std::vector<double> mz = RotatedMetric(u, m, 0.05, n);
  const FeedbackFactor f = FactorMetric(mz, n);
  // P_ij = coefficients_ij / sqrt(pivot_i) is upper triangular with P^T P Mz = I.
  std::vector<double> pt_p(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(f.coefficients[i * n + i], 1);
    for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(f.coefficients[i * n + j], 0);
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b)
        pt_p[a * n + b] += f.coefficients[i * n + a] * f.coefficients[i * n + b] / f.pivots[i];
  }
  EXPECT_THAT(reference::Times(pt_p, mz, n), Pointwise(DoubleNear(1e-11), reference::Identity(n)));
}

TEST(FeedbackRounding, RotatedMetricByDefinition) {
  const std::size_t n = 8;
  const std::vector<double> u = reference::TransformMatrix(RandomTransform(8, 133));
  const std::vector<float> m = QueryMoments(n, 134);
  std::vector<double> ut(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) ut[i * n + j] = u[j * n + i];
  std::vector<double> want = reference::Times(reference::Times(u, Widened(m), n), ut, n);
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += static_cast<double>(m[i * n + i]);
  for (std::size_t i = 0; i < n; ++i) want[i * n + i] += 0.1 * trace / 8;
  EXPECT_THAT(RotatedMetric(u, m, 0.1, n),
              Pointwise(DoubleNear(1e-5), want));  // m is symmetric to float only
}

// By hand, d = 8, Mz = I but for the pair (0, 1): [1 .9; .9 1]. Mz^-1 on the pair is [1 -.9; -.9 1] / .19,
// its upper factor P = [a b; 0 c]: a^2 = 1/.19, a b = -.9/.19, so P_01 / P_00 = -.9 and D_0 = .19. z_0 = .4
// at scale 1 rounds to 0, error .4; z_1 becomes .4 - .4 * (-.9) = .76 and rounds to 1: the pair's cost falls
// from (.4, .4): .32 + .288 = .608 to (-.4, .6): .52 - .432 = .088.
HeadTable PairTable(Rounding rounding) {
  HeadTable table;
  table.transform.head_dim = 8;
  table.rounding = rounding;
  for (int i = 0; i < 64; ++i) table.metric.push_back(i % 9 == 0 ? 1.0f : 0.0f);
  table.metric[1] = table.metric[8] = 0.9f;
  return table;
}

TEST(FeedbackRounding, TwoCoordinatesByHand) {
  const HeadTable table = PairTable(Rounding::kFeedback);
  const FeedbackFactor f = FactorMetric(Widened(table.metric), 8);
  EXPECT_NEAR(f.pivots[0], .19, 1e-7);
  EXPECT_NEAR(f.coefficients[1], -.9, 1e-7);
  const CodecSpec spec{8, 3, 8, GridKind::kSymmetric, ScaleRule::kAbsmax};
  const std::vector<float> x = {.4f, .4f, 0, 0, 0, 0, 0, 3};
  std::vector<float> x_hat(8);
  const HeadCodec codec(spec, table);
  ASSERT_TRUE(codec.Decode(Rows(codec, x), x_hat).ok());
  EXPECT_THAT(x_hat, testing::ElementsAre(0, 1, 0, 0, 0, 0, 0, 3));
}

// The same pair refined by hand. The scale alone: with levels g = (0, 1, ..., 3), z = (.4, .4, ..., 3):
// g^T Mz g = 1 + 9, g^T Mz z = .9 * .4 + .4 + 9 = 9.76, so the scale is .976. Sweep: no code changes.
TEST(FeedbackRounding, RefinedScaleByHand) {
  HeadTable table = PairTable(Rounding::kRefined);
  table.rounds = 1;
  const HeadCodec codec({8, 3, 8, GridKind::kSymmetric, ScaleRule::kAbsmax}, table);
  std::vector<float> x_hat(8);
  ASSERT_TRUE(codec.Decode(Rows(codec, {.4f, .4f, 0, 0, 0, 0, 0, 3}), x_hat).ok());
  EXPECT_NEAR(x_hat[1], .976, .976 / 2048);
  EXPECT_EQ(x_hat[0], 0);
  EXPECT_EQ(x_hat[7], 3 * x_hat[1]);
}

TEST(FeedbackRounding, WithTheIdentityMetricItIsNearestRounding) {
  std::vector<float> identity(64 * 64, 0.0f);
  for (std::size_t i = 0; i < 64; ++i) identity[65 * i] = 1;
  // Without a rotation Mz is exactly I: the same bytes.
  for (const auto& grid : GridKinds()) {
    const CodecSpec spec{64, 3, 32, grid.value, ScaleRule::kMse};
    HeadTable nearest = TableOf(64, Rounding::kNearest, {}),
              feedback = TableOf(64, Rounding::kFeedback, identity);
    nearest.chosen = feedback.chosen = Chosen::kIdentity;
    const std::vector<float> x = Noise(64 * 100, 135);
    EXPECT_EQ(Rows(HeadCodec(spec, feedback), x), Rows(HeadCodec(spec, nearest), x));
  }
}

// On 200 random rows; the margins are far outside their scatter of a few per cent.
TEST(FeedbackRounding, LowersTheWeightedErrorAndRefinementLowersItFurther) {
  for (const int head_dim : {64, 80})
    for (const auto& grid : GridKinds())
      for (const int bits : {2, 3, 4}) {
        const auto n = static_cast<std::size_t>(head_dim);
        const std::vector<float> m = QueryMoments(n, 136), x = Noise(200 * n, 137);
        const CodecSpec spec{head_dim, bits, 16, grid.value, ScaleRule::kMse};
        const auto error = [&](Rounding r) {
          return WeightedError(HeadCodec(spec, TableOf(head_dim, r, m)), x, m);
        };
        const double nearest = error(Rounding::kNearest), feedback = error(Rounding::kFeedback);
        EXPECT_LT(feedback, 0.95 * nearest) << grid.name << bits;
        EXPECT_LT(error(Rounding::kRefined), 0.98 * feedback) << grid.name << bits;
      }
}

TEST(FeedbackRounding, ZeroBlocksStayZero) {
  const HeadCodec codec({64, 3, 16, GridKind::kLloyd, ScaleRule::kMse}, [] {
    HeadTable t = TableOf(64, Rounding::kRefined, QueryMoments(64, 138));
    t.chosen = Chosen::kIdentity;
    t.transform.offset.clear();
    return t;
  }());
  std::vector<float> x = Noise(64, 139), x_hat(64);
  std::fill(x.begin() + 16, x.begin() + 32, 0.0f);
  ASSERT_TRUE(codec.Decode(Rows(codec, x), x_hat).ok());
  for (std::size_t i = 16; i < 32; ++i) EXPECT_EQ(x_hat[i], 0);
  const std::vector<float> zeros(64, 0.0f);
  ASSERT_TRUE(codec.Decode(Rows(codec, zeros), x_hat).ok());
  EXPECT_THAT(x_hat, testing::Each(0.0f));
}

TEST(FeedbackRounding, RefusesMetricsThatAreNotPositiveDefiniteAndTooManyBlocks) {
  std::vector<float> indefinite(64, 0.0f);
  for (std::size_t i = 0; i < 8; ++i) indefinite[9 * i] = 1;
  indefinite[1] = indefinite[8] = 1.5f;
  HeadTable table = TableOf(8, Rounding::kFeedback, indefinite);
  EXPECT_THAT(
      [&] {
        HeadCodec({8, 3, 8, GridKind::kLloyd, ScaleRule::kMse}, table);
      },
      ThrowsMessage<Error>(HasSubstr("use a larger damping")));
  table.damping = 1;
  EXPECT_NO_THROW(HeadCodec({8, 3, 8, GridKind::kLloyd, ScaleRule::kMse}, table));
  table = TableOf(128, Rounding::kRefined, QueryMoments(128, 140));
  EXPECT_THAT(
      [&] {
        HeadCodec({128, 3, 1, GridKind::kLloyd, ScaleRule::kMse}, table);
      },
      ThrowsMessage<Error>(HasSubstr("128 blocks")));
}

}  // namespace
}  // namespace so4cal
