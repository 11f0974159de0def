// SPDX-License-Identifier: Apache-2.0
#include "calib/calibrate_rotation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calib/layer_attention.h"

#include "tests/support/random_data.h"

namespace so4cal {
namespace {

constexpr int kHeadDim = 64;
constexpr std::size_t kTokens = 1000;

// Tokens with a few loud directions, an offset, and sequences that differ: a rotation has work to do.
std::vector<float> Activations64(unsigned seed) {
  std::vector<float> rows = Noise(kTokens * kHeadDim, seed);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t c = i % kHeadDim;
    rows[i] = rows[i] * (c % 16 == 3 ? 8.0f : 1.0f) + (c == 10 ? 20.0f : 0.5f);
  }
  return rows;
}

TokenSplit ThreeParts() { return {{{0, 700}}, {{700, 850}}, {{850, 1000}}}; }

RotationCalibration::Result Calibrate(const std::vector<float>& rows, const TokenSplit& split,
                                      const SideOptions& side) {
  const HeadInput input{.head = {rows.data(), kTokens, kHeadDim, kHeadDim}};
  RotationCalibration head({&input, 1}, split, side, 25, 1);
  for (int p = 0; p < head.num_parts(); ++p) head.FitPart(p);
  return head.Finish()[0];
}

class EveryFamily : public testing::TestWithParam<Family> {};

TEST_P(EveryFamily, IsNoWorseThanItsStartAndIdentityOnValidation) {
  SideOptions side;
  side.rotation = GetParam();
  const std::vector<float> rows = Activations64(51);
  const auto result = Calibrate(rows, ThreeParts(), side);
  EXPECT_NO_THROW(result.table.Check());
  const HeadErrors& e = result.outcome.errors;
  const double chosen = result.table.chosen == Chosen::kFitted     ? e.validation_fitted
                        : result.table.chosen == Chosen::kHadamard ? e.validation_hadamard
                                                                   : e.validation_identity;
  EXPECT_LE(chosen,
            e.validation_hadamard * (1 + 1e-6));  // the butterfly's start rounds otherwise than the FWHT
  EXPECT_LE(chosen, e.validation_identity);
}

TEST_P(EveryFamily, KeepsItsOffsetAndStrides) {
  SideOptions side;
  side.rotation = GetParam();
  const auto result = Calibrate(Activations64(52), ThreeParts(), side);
  EXPECT_NEAR(result.table.transform.offset[10], 20, 0.2);  // the mean of 700 tokens of deviation 1
  EXPECT_EQ(result.table.transform.hadamard, side.ResolvedHadamard());
  const std::size_t stages = GetParam() == Family::kNone ? 0 : GetParam() == Family::kButterfly ? 3 : 1;
  EXPECT_EQ(result.table.transform.stages.size(), stages);
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily,
                         testing::Values(Family::kButterfly, Family::kSo4, Family::kLeft, Family::kPlanar,
                                         Family::kNone),
                         [](const auto& p) { return std::string(NameOf(Families(), p.param)); });

TEST(RotationCalibration, PartsAreQuantizationBlocksForOneStage) {
  SideOptions side;
  const std::vector<float> rows = Activations64(53);
  const HeadInput view{.head = {rows.data(), kTokens, kHeadDim, kHeadDim}};
  const TokenSplit split = ThreeParts();
  side.loss = LossChoice::kExpected;
  EXPECT_EQ(RotationCalibration({&view, 1}, split, side, 1, 1).num_parts(),
            1);  // a butterfly couples all blocks
  side.rotation = Family::kSo4;
  EXPECT_EQ(RotationCalibration({&view, 1}, split, side, 1, 1).num_parts(), 2);
  side.loss = LossChoice::kAuto;
  EXPECT_EQ(RotationCalibration({&view, 1}, split, side, 1, 1).num_parts(),
            2);  // a polish goes with what it polishes
  side.rotation = Family::kNone;
  EXPECT_EQ(RotationCalibration({&view, 1}, split, side, 1, 1).num_parts(), 0);
}

// White noise is as well stored as can be: what the fit finds is luck, and validation mostly says so.
TEST(RotationCalibration, DoesNotFollowLuck) {
  SideOptions side;
  const auto result = Calibrate(Noise(kTokens * kHeadDim, 54), ThreeParts(), side);
  EXPECT_LT(result.outcome.errors.test_chosen, 1.01 * result.outcome.errors.test_hadamard);
}

TEST(RotationCalibration, WithoutValidationTheFitIsUsed) {
  SideOptions side;
  const auto result = Calibrate(Activations64(55), {{{0, 700}}, {}, {{700, 1000}}}, side);
  EXPECT_EQ(result.table.chosen, Chosen::kFitted);
  EXPECT_TRUE(std::isnan(result.outcome.errors.validation_fitted));
  EXPECT_TRUE(std::isfinite(result.outcome.errors.test_chosen));
  EXPECT_EQ(result.outcome.shrink, 1);
}

TEST(RotationCalibration, ValidationAndTestTokensDoNotReachTheFit) {
  SideOptions side;
  std::vector<float> rows = Activations64(56);
  const TokenSplit no_choice{{{0, 700}}, {}, {{850, 1000}}};
  const auto before = Calibrate(rows, no_choice, side);
  for (std::size_t i = 700 * kHeadDim; i < rows.size(); ++i) rows[i] *= -3;
  EXPECT_EQ(Calibrate(rows, no_choice, side).table, before.table);
}

// One loud direction along (1, ..., 1): a Hadamard transform gathers it in one channel, signs spread it. And
// loud channels, which identity can't serve.
std::vector<float> LoudSum(unsigned seed) {
  std::vector<float> rows = Noise(kTokens * kHeadDim, seed);
  const std::vector<float> loud = Noise(kTokens, seed + 1);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = rows[i] * (i % 32 == 10 ? 12.0f : 1.0f) + 3 * loud[i / kHeadDim];
  return rows;
}

TEST(RotationCalibration, SignsAreChosenWhereTheyHelp) {
  SideOptions side;
  side.rotation = Family::kPlanar;
  const auto plain = Calibrate(LoudSum(61), ThreeParts(), side);
  side.signs = 4;
  const auto signed_too = Calibrate(LoudSum(61), ThreeParts(), side);
  EXPECT_TRUE(plain.table.transform.signs.empty());
  EXPECT_EQ(signed_too.table.transform.signs.size(), static_cast<std::size_t>(kHeadDim));
  EXPECT_NO_THROW(signed_too.table.Check());
  EXPECT_LT(signed_too.outcome.errors.decision_fitted, 0.9 * plain.outcome.errors.decision_fitted);
  EXPECT_LT(signed_too.outcome.errors.test_chosen, 0.9 * plain.outcome.errors.test_chosen);
}

TEST(RotationCalibration, RestartsAreNoWorseOnValidation) {
  SideOptions side;
  side.rotation = Family::kSo4;
  const auto once = Calibrate(Activations64(62), ThreeParts(), side);
  side.restarts = 3;
  const auto again = Calibrate(Activations64(62), ThreeParts(), side);
  // Runs are compared before they are shrunk, which may gain a little on either.
  EXPECT_LE(again.outcome.errors.decision_fitted, 1.01 * once.outcome.errors.decision_fitted);
  EXPECT_FALSE(once.restarted);
}

TEST(RotationCalibration, HeadsThatShareHaveOneMapAndTheirOwnOffsets) {
  const std::vector<float> one = Activations64(63), two = LoudSum(64);
  const HeadInput inputs[] = {{.head = {one.data(), kTokens, kHeadDim, kHeadDim}},
                              {.head = {two.data(), kTokens, kHeadDim, kHeadDim}}};
  SideOptions side;
  const TokenSplit split = ThreeParts();
  RotationCalibration shared(inputs, split, side, 25, 1);
  for (int p = 0; p < shared.num_parts(); ++p) shared.FitPart(p);
  const auto results = shared.Finish();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].table.transform.stages, results[1].table.transform.stages);
  EXPECT_EQ(results[0].table.chosen, results[1].table.chosen);
  EXPECT_NE(results[0].table.transform.offset, results[1].table.transform.offset);
  double product = 1;  // the guard looks at both together
  for (const auto& r : results)
    product *= r.outcome.errors.decision_fitted / r.outcome.errors.decision_hadamard;
  EXPECT_EQ(results[0].table.chosen, Chosen::kFitted);
  EXPECT_LE(product, 1);
  // A map for one head alone serves that head better.
  EXPECT_LT(Calibrate(one, split, side).outcome.errors.decision_fitted,
            results[0].outcome.errors.decision_fitted);
}

// Keys with queries that look along a few quiet channels, away from the loud ones: every rounding and loss
// under their metric. There is much to gain, a scale of their own for what is looked at.
struct MetricCase {
  const char* name;
  RoundingChoice rounding;
  LossChoice loss;
  double limit;  // of the error's ratio to Hadamard; .73, .72 and .93 were measured
};
class EveryMetricFit : public testing::TestWithParam<MetricCase> {};

TEST_P(EveryMetricFit, LowersTheLogitErrorOfOtherTokens) {
  const std::vector<float> keys = Activations64(71);
  LayerAttention attention;
  attention.queries = {2, kTokens, kHeadDim, Noise(2 * kTokens * kHeadDim, 72)};
  for (std::size_t i = 0; i < attention.queries.values.size(); ++i)
    attention.queries.values[i] *= i % kHeadDim >= 4 && i % kHeadDim < 10 ? 3.0f : 0.3f;
  for (std::uint64_t t = 0; t < kTokens; ++t) attention.positions.push_back(t);
  attention.sequence_starts = {0};
  attention.softmax_scale = 0.125;
  const HeadInput input{.head = {keys.data(), kTokens, kHeadDim, kHeadDim}, .attention = &attention};
  const TokenSplit split = ThreeParts();
  SideOptions side;
  side.rounding = GetParam().rounding;
  side.loss = GetParam().loss;
  RotationCalibration fit({&input, 1}, split, side, 40, 1);
  for (int p = 0; p < fit.num_parts(); ++p) fit.FitPart(p);
  const auto result = fit.Finish()[0];
  EXPECT_NO_THROW(result.table.Check());
  EXPECT_EQ(result.outcome.objective, Objective::kLogit);
  EXPECT_EQ(result.table.rounding == Rounding::kNearest, GetParam().rounding == RoundingChoice::kNearest);
  EXPECT_EQ(result.table.metric.empty(), GetParam().rounding == RoundingChoice::kNearest);
  // From the start the exact loss gets nowhere, and the guard may choose Hadamard.
  const HeadErrors& e = result.outcome.errors;
  EXPECT_EQ(result.table.chosen == Chosen::kFitted, e.decision_fitted < e.decision_hadamard);
  if (GetParam().loss == LossChoice::kAuto) {
    EXPECT_LT(e.decision_fitted, GetParam().limit * e.decision_hadamard);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Metrics, EveryMetricFit,
    testing::Values(MetricCase{"nearest_polished", RoundingChoice::kNearest, LossChoice::kAuto, 0.85},
                    MetricCase{"nearest_exact", RoundingChoice::kNearest, LossChoice::kExact, 1},
                    MetricCase{"feedback", RoundingChoice::kFeedback, LossChoice::kAuto, 0.85},
                    MetricCase{"refined", RoundingChoice::kRefined, LossChoice::kAuto, 0.99},
                    MetricCase{"refined_exact", RoundingChoice::kRefined, LossChoice::kExact, 1}),
    [](const auto& p) { return std::string(p.param.name); });

// A value head whose output projection passes four channels, and the others times `rest`.
RotationCalibration::Result CalibrateValues(float rest, RoundingChoice rounding) {
  const std::vector<float> values = Activations64(81);
  LayerAttention attention;
  attention.num_query_heads = 1;
  attention.w_o_rows = kHeadDim;
  attention.w_o.resize(kHeadDim * kHeadDim);
  for (std::size_t i = 0; i < kHeadDim; ++i) attention.w_o[i * kHeadDim + i] = i < 4 ? 1 : rest;
  const HeadInput input{
      .side = Side::kValue, .head = {values.data(), kTokens, kHeadDim, kHeadDim}, .attention = &attention};
  const TokenSplit split = ThreeParts();
  SideOptions side;
  side.rounding = rounding;
  side.objective = ObjectiveChoice::kOutput;
  RotationCalibration fit({&input, 1}, split, side, 20, 1);
  for (int p = 0; p < fit.num_parts(); ++p) fit.FitPart(p);
  return fit.Finish()[0];
}

// Where the projection sees four channels of 64, feedback moves the error out of its sight. Where it sees
// all alike there is nowhere to move it, and the plain rule stays.
TEST(RotationCalibration, ValuesTakeFeedbackWhereTheProjectionLetsIt) {
  const auto narrow = CalibrateValues(0.05f, RoundingChoice::kAuto),
             plain = CalibrateValues(0.05f, RoundingChoice::kNearest);
  EXPECT_EQ(narrow.table.rounding, Rounding::kFeedback);
  EXPECT_FALSE(narrow.table.metric.empty());
  const HeadErrors &e = narrow.outcome.errors, &of_plain = plain.outcome.errors;
  const auto best = [](const HeadErrors& x) {
    return std::min({x.decision_fitted, x.decision_hadamard, x.decision_identity});
  };
  EXPECT_LT(best(e), 0.5 * best(of_plain));  // errors in 60 of 64 directions cost little now
  EXPECT_EQ(narrow.table.chosen, e.decision_fitted == best(e)     ? Chosen::kFitted
                                 : e.decision_hadamard == best(e) ? Chosen::kHadamard
                                                                  : Chosen::kIdentity);
  EXPECT_NO_THROW(narrow.table.Check());
  EXPECT_EQ(CalibrateValues(1, RoundingChoice::kAuto).table.rounding, Rounding::kNearest);
}

}  // namespace
}  // namespace so4cal
