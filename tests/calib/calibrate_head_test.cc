// SPDX-License-Identifier: Apache-2.0
#include "calib/calibrate_head.h"

#include <gtest/gtest.h>

#include <cmath>

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

HeadCalibration::Result Calibrate(const std::vector<float>& rows, const TokenSplit& split,
                                  const SideOptions& side) {
  HeadCalibration head({.head = {rows.data(), kTokens, kHeadDim, kHeadDim}}, split, side, 25);
  for (int p = 0; p < head.num_parts(); ++p) head.FitPart(p);
  return head.Finish();
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

TEST(HeadCalibration, PartsAreQuantizationBlocksForOneStage) {
  SideOptions side;
  const std::vector<float> rows = Activations64(53);
  const HeadInput view{.head = {rows.data(), kTokens, kHeadDim, kHeadDim}};
  const TokenSplit split = ThreeParts();
  side.loss = LossChoice::kExpected;
  EXPECT_EQ(HeadCalibration(view, split, side, 1).num_parts(), 1);  // a butterfly couples all blocks
  side.rotation = Family::kSo4;
  EXPECT_EQ(HeadCalibration(view, split, side, 1).num_parts(), 2);
  side.loss = LossChoice::kAuto;
  EXPECT_EQ(HeadCalibration(view, split, side, 1).num_parts(), 4);
  side.rotation = Family::kNone;
  EXPECT_EQ(HeadCalibration(view, split, side, 1).num_parts(), 0);
}

// White noise is as well stored as can be: what the fit finds is luck, and validation mostly says so.
TEST(HeadCalibration, DoesNotFollowLuck) {
  SideOptions side;
  const auto result = Calibrate(Noise(kTokens * kHeadDim, 54), ThreeParts(), side);
  EXPECT_LT(result.outcome.errors.test_chosen, 1.01 * result.outcome.errors.test_hadamard);
}

TEST(HeadCalibration, WithoutValidationTheFitIsUsed) {
  SideOptions side;
  const auto result = Calibrate(Activations64(55), {{{0, 700}}, {}, {{700, 1000}}}, side);
  EXPECT_EQ(result.table.chosen, Chosen::kFitted);
  EXPECT_TRUE(std::isnan(result.outcome.errors.validation_fitted));
  EXPECT_TRUE(std::isfinite(result.outcome.errors.test_chosen));
  EXPECT_EQ(result.outcome.shrink, 1);
}

TEST(HeadCalibration, ValidationAndTestTokensDoNotReachTheFit) {
  SideOptions side;
  std::vector<float> rows = Activations64(56);
  const TokenSplit no_choice{{{0, 700}}, {}, {{850, 1000}}};
  const auto before = Calibrate(rows, no_choice, side);
  for (std::size_t i = 700 * kHeadDim; i < rows.size(); ++i) rows[i] *= -3;
  EXPECT_EQ(Calibrate(rows, no_choice, side).table, before.table);
}

}  // namespace
}  // namespace so4cal
