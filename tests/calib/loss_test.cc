// SPDX-License-Identifier: Apache-2.0
#include "calib/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/each_target.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

struct Case {
  LossKind kind;
  GridKind grid;
  int bits;
  ScaleRule scale;
  std::vector<int> strides;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(NameOf(LossKinds(), c.kind)) + "_" + std::string(NameOf(GridKinds(), c.grid)) +
         std::to_string(c.bits) + "_" + std::string(NameOf(ScaleRules(), c.scale)) + "_" +
         std::to_string(c.strides.size()) + "_stages";
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const std::vector<int>& strides : {std::vector<int>{1}, std::vector<int>{1, 4, 16}}) {
    cases.push_back({LossKind::kExpected, GridKind::kLloyd, 3, ScaleRule::kMse, strides});
    cases.push_back({LossKind::kExpected, GridKind::kFull, 3, ScaleRule::kAbsmax, strides});
    for (const auto& grid : GridKinds())
      for (const auto& scale : ScaleRules())
        cases.push_back({LossKind::kExact, grid.value, 3, scale.value, strides});
    cases.push_back({LossKind::kExact, GridKind::kLloyd, 2, ScaleRule::kMse, strides});
    cases.push_back({LossKind::kExact, GridKind::kSymmetric, 4, ScaleRule::kAbsmax, strides});
  }
  return cases;
}

constexpr int kHeadDim = 64;

CodecSpec Spec(const Case& c) {
  return {.head_dim = kHeadDim, .bits = c.bits, .block = 32, .grid = c.grid, .scale = c.scale};
}

// Heavy-tailed rows, as activations are, so that the largest coordinate of a block stands out.
std::vector<float> Rows(std::size_t tokens, unsigned seed) {
  std::vector<float> rows = Noise(tokens * kHeadDim, seed);
  for (float& v : rows) v *= std::abs(v);
  return rows;
}

std::vector<double> Matrices(const StageShape& shape, unsigned seed) {
  std::vector<double> m;
  for (const Stage& s : RandomStages(shape.channels, shape.strides, seed))
    for (const So4& b : s.blocks)
      for (const double v : ToMatrix(b)) m.push_back(v);
  return m;
}

class EveryLoss : public testing::TestWithParam<Case> {};

// The loss is smooth between code boundaries. A boundary or a tie inside the step shows as two one-sided
// differences that disagree: such entries are left out, and most must be left. Elsewhere the loss is a
// rational function with curvature of order 1: step 1e-6 leaves 1e-9 of truncation and rounding, relative to
// the largest entry.
TEST_P(EveryLoss, GradientAgreesWithCentralDifferences) {
  const Case& c = GetParam();
  const StageShape shape{kHeadDim, c.strides};
  TokenLoss<double> loss(shape, c.kind, Spec(c), Rows(3, 21), kHeadDim, 0);
  const std::vector<double> at = Matrices(shape, 22);
  std::vector<double> gradient(at.size());
  const double value = loss.Evaluate(at, gradient);
  const double largest =
      std::abs(*std::ranges::max_element(gradient, {}, [](double g) { return std::abs(g); }));
  ASSERT_GT(largest, 0);
  constexpr double kStep = 1e-6;
  std::size_t checked = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    std::vector<double> above = at, below = at;
    above[i] += kStep;
    below[i] -= kStep;
    const double up = loss.Evaluate(above, {}) - value, down = value - loss.Evaluate(below, {});
    if (std::abs(up - down) > 1e-4 * kStep * largest + 1e-14) continue;  // a boundary in between
    ++checked;
    EXPECT_NEAR(gradient[i], (up + down) / (2 * kStep), 1e-6 * largest) << "entry " << i;
  }
  EXPECT_GT(checked, at.size() * 8 / 10);
}

// 1e-4: f32 rounding of sums over 64 channels. With 20 tokens (1,280 values) and differences of 1e-7 between
// the precisions no code lies on the other side of a boundary; with many more some would.
TEST_P(EveryLoss, F32AgreesWithDoubleOnEveryTarget) {
  const Case& c = GetParam();
  const StageShape shape{kHeadDim, c.strides};
  const std::vector<float> rows = Rows(20, 23);
  TokenLoss<double> reference(shape, c.kind, Spec(c), rows, kHeadDim, 0);
  const std::vector<double> at = Matrices(shape, 24);
  std::vector<double> want(at.size()), got(at.size());
  const double value = reference.Evaluate(at, want);
  const double largest = std::abs(*std::ranges::max_element(want, {}, [](double g) { return std::abs(g); }));
  ForEachTarget([&] {
    TokenLoss<float> loss(shape, c.kind, Spec(c), rows, kHeadDim, 0);
    EXPECT_NEAR(loss.Evaluate(at, got), value, 1e-4 * value);
    double worst = 0;
    for (std::size_t i = 0; i < at.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
    EXPECT_LT(worst, 1e-4 * largest);
  });
}

INSTANTIATE_TEST_SUITE_P(Losses, EveryLoss, testing::ValuesIn(AllCases()), CaseName);

// Two blocks of four, identity rotation, one token (6, 1, 1, 1 | 2, 0, 0, -2): energy 39 + 8 = 47.
// Expected, symmetric 3 bits: 4 (6/3)^2 / 12 + 4 (2/3)^2 / 12 = 4/3 + 4/27.
// Exact, absmax: scale 2 gives levels 3 1 1 1 for 6 1 1 1 (0.5 is a tie, the higher code): error 3;
// scale 2/3 gives 3 0 0 -3, error 0.
TEST(TokenLoss, WorkedByHand) {
  const std::vector<float> row = {6, 1, 1, 1, 2, 0, 0, -2};
  CodecSpec spec{
      .head_dim = 8, .bits = 3, .block = 4, .grid = GridKind::kSymmetric, .scale = ScaleRule::kAbsmax};
  const StageShape shape{8, {1}};
  std::vector<double> identity;
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 16; ++i) identity.push_back(i % 5 == 0 ? 1 : 0);
  TokenLoss<double> expected(shape, LossKind::kExpected, spec, row, 8, 0);
  EXPECT_NEAR(expected.Evaluate(identity, {}), (4.0 / 3 + 4.0 / 27) / 47, 1e-15);
  TokenLoss<double> exact(shape, LossKind::kExact, spec, row, 8, 0);
  EXPECT_NEAR(exact.Evaluate(identity, {}), 3.0 / 47, 1e-15);
}

// Loss of a whole = sum of the losses of its independent slices, each weighted by its energy.
TEST(TokenLoss, SlicesAddUp) {
  const Case c{LossKind::kExpected, GridKind::kLloyd, 3, ScaleRule::kMse, {1}};
  const std::vector<float> rows = Rows(100, 25);
  double energy[2] = {0, 0};
  for (std::size_t i = 0; i < rows.size(); ++i)
    energy[i % kHeadDim / 32] += static_cast<double>(rows[i]) * static_cast<double>(rows[i]);
  const StageShape whole{kHeadDim, {1}}, half{32, {1}};
  const std::vector<double> m = Matrices(whole, 26);
  double sum = 0;
  for (std::size_t slice = 0; slice < 2; ++slice) {
    TokenLoss<double> loss(half, c.kind, Spec(c), rows, kHeadDim, 32 * slice);
    sum += loss.Evaluate(std::span(m).subspan(slice * m.size() / 2, m.size() / 2), {}) * energy[slice];
  }
  TokenLoss<double> loss(whole, c.kind, Spec(c), rows, kHeadDim, 0);
  EXPECT_NEAR(loss.Evaluate(m, {}), sum / (energy[0] + energy[1]), 1e-14);  // rounding of sums of 6,400 terms
}

TEST(TokenLoss, ZeroRowsCostNothing) {
  const StageShape shape{kHeadDim, {1, 4, 16}};
  for (const LossKind kind : {LossKind::kExpected, LossKind::kExact}) {
    const Case c{kind, GridKind::kLloyd, 3, ScaleRule::kMse, {1, 4, 16}};
    TokenLoss<float> loss(shape, kind, Spec(c), std::vector<float>(3 * kHeadDim, 0.0f), kHeadDim, 0);
    std::vector<double> gradient(shape.num_matrix_entries(), 1.0);
    EXPECT_EQ(loss.Evaluate(Matrices(shape, 27), gradient), 0);
    EXPECT_EQ(std::ranges::count(gradient, 0.0), static_cast<std::ptrdiff_t>(gradient.size()));
  }
}

}  // namespace
}  // namespace so4cal
