// SPDX-License-Identifier: Apache-2.0
#include "calib/head_judge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calib/metrics.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

constexpr int kHeadDim = 64;
constexpr std::size_t kTokens = 300;
const TokenRange kValidation[] = {{200, 300}};

CodecSpec Spec() { return {.head_dim = kHeadDim}; }

HeadTable Hadamard() {
  HeadTable table;
  table.transform.head_dim = kHeadDim;
  table.transform.hadamard = true;
  table.chosen = Chosen::kHadamard;
  return table;
}

// Keys, and queries that look mostly along the first eight channels: plain rounding wastes what is known of
// them.
struct Layer {
  std::vector<float> keys = Noise(kTokens * kHeadDim, 71);
  LayerAttention attention;
  Metric metric;
  std::vector<float> validation;

  Layer() {
    attention.queries = {2, kTokens, kHeadDim, Noise(2 * kTokens * kHeadDim, 72)};
    for (std::size_t i = 0; i < attention.queries.values.size(); ++i)
      attention.queries.values[i] *= i % kHeadDim < 8 ? 4.0f : 0.4f;
    for (std::uint64_t t = 0; t < kTokens; ++t) attention.positions.push_back(t);
    attention.sequence_starts = {0};
    attention.softmax_scale = 0.125;
    const TokenRange fit[] = {{0, 200}};
    metric = QueryMoment(attention.queries, attention.positions, 0, 1, fit);
    validation.assign(keys.begin() + 200 * kHeadDim, keys.end());
  }
  HeadView View() const { return {keys.data(), kTokens, kHeadDim, kHeadDim}; }
  KeyJudge Keys() const { return {attention, View(), 0, 1, Spec(), kValidation}; }
};

TEST(HeadJudge, MseIsTheNmseOfTheCodec) {
  const Layer layer;
  const HeadJudge judge(Spec(), layer.validation, layer.metric, {});
  const HeadView view{layer.validation.data(), 100, kHeadDim, kHeadDim};
  EXPECT_EQ(judge.Score(Hadamard(), Objective::kMse), MeasureDistortion(Spec(), Hadamard(), view, {}).nmse());
}

TEST(HeadJudge, ScoresAreNanWithoutValidationTokens) {
  const std::vector<float> none;
  EXPECT_TRUE(std::isnan(HeadJudge(Spec(), none, {}, {}).Score(Hadamard(), Objective::kMse)));
}

// M = I makes the quadratic form the NMSE.
TEST(HeadJudge, OutputUnderTheIdentityIsTheNmse) {
  const Layer layer;
  Metric identity(kHeadDim * kHeadDim, 0.0);
  for (std::size_t i = 0; i < kHeadDim; ++i) identity[i * kHeadDim + i] = 1;
  const HeadJudge judge(Spec(), layer.validation, identity, {});
  const double nmse = judge.Score(Hadamard(), Objective::kMse);
  EXPECT_NEAR(judge.Score(Hadamard(), Objective::kOutput), nmse, 1e-6 * nmse);  // sums in another order
}

TEST(HeadJudge, ChosenRoundingLowersAttentionKlAndLogitError) {
  const Layer layer;
  const KeyJudge keys = layer.Keys();
  ASSERT_TRUE(keys.has_queries());
  const HeadJudge judge(Spec(), layer.validation, layer.metric, keys);
  const HeadTable refined = judge.WithRounding(Hadamard(), Rounding::kRefined, {});
  EXPECT_NO_THROW(refined.Check());
  EXPECT_NE(refined.rounding, Rounding::kNearest);
  const HeadTable tables[] = {Hadamard(), refined};
  const auto errors = keys.Measure(tables);
  EXPECT_LT(errors[1].attention_kl(), errors[0].attention_kl());
  EXPECT_LT(judge.Score(refined, Objective::kLogit), 0.8 * judge.Score(Hadamard(), Objective::kLogit));
}

TEST(HeadJudge, FixedDampingAndRoundsAreKept) {
  const Layer layer;
  SideOptions side;
  side.rounding = RoundingChoice::kRefined;
  side.damping = 0.5;
  side.rounds = 3;
  const HeadTable table = HeadJudge(Spec(), layer.validation, layer.metric, layer.Keys())
                              .WithRounding(Hadamard(), Rounding::kRefined, side);
  EXPECT_EQ(table.rounding, Rounding::kRefined);
  EXPECT_EQ(table.damping, 0.5f);
  EXPECT_EQ(table.rounds, 3);
}

TEST(HeadJudge, WithoutQueriesTheDefaultsAreUsed) {  // q_moment alone gives a metric but no attention
  const Layer layer;
  const HeadTable table =
      HeadJudge(Spec(), layer.validation, layer.metric, {}).WithRounding(Hadamard(), Rounding::kRefined, {});
  EXPECT_EQ(table.damping, 0.1f);
  EXPECT_EQ(table.rounds, 2);
}

}  // namespace
}  // namespace so4cal
