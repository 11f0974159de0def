// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize_block.h"

#include <gmock/gmock.h>

#include <array>

#include "lib/half.h"
#include "tests/reference/quantizer.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::ElementsAre;

std::vector<std::uint8_t> Codes(const Grid& grid, float scale, const std::vector<float>& z) {
  std::vector<std::uint8_t> codes(z.size());
  ChooseCodes(grid, scale, z, codes);
  return codes;
}

TEST(QuantizeBlock, SymmetricAbsmaxByHand) {
  const Grid& grid = GridFor(GridKind::kSymmetric, 3);
  const std::vector<float> z = {-6, 3, -3, 1, 0.9f, 0};  // scale 2: -3, 1.5, -1.5, 0.5, 0.45, 0
  const BlockScale scale = ChooseScale(grid, ScaleRule::kAbsmax, z);
  EXPECT_EQ(scale.value, 2);
  EXPECT_EQ(scale.half, 0x4000);
  EXPECT_THAT(Codes(grid, scale.value, z), ElementsAre(0, 5, 2, 4, 3, 3));  // ties go up
}

TEST(QuantizeBlock, FullHasASignedScaleThatMakesTheLargestValueExact) {
  const Grid& grid = GridFor(GridKind::kFull, 3);
  const std::vector<float> z = {-1, 4, -4, 2, 0};  // the first of the largest: 4, so scale -1
  const BlockScale scale = ChooseScale(grid, ScaleRule::kAbsmax, z);
  EXPECT_EQ(scale.value, -1);
  EXPECT_THAT(Codes(grid, scale.value, z),
              ElementsAre(5, 0, 7, 2, 4));  // levels 1, -4, 3 (4 is missing), -2, 0
}

// By hand, 2 bits symmetric, z = (3, 1, 1, 1), absmax scale 3. Rungs below 2/3 put all on 1 (score -36/4 =
// -9), those above have 3 alone (-9/1): a tie, the first rung wins, scale 6/4.
TEST(QuantizeBlock, MseByHandWithATie) {
  const Grid& grid = GridFor(GridKind::kSymmetric, 2);
  const std::vector<float> z = {3, 1, 1, 1};
  const BlockScale scale = ChooseScale(grid, ScaleRule::kMse, z);
  EXPECT_EQ(scale.value, 1.5f);
  EXPECT_THAT(Codes(grid, scale.value, z), ElementsAre(2, 2, 2, 2));
}

TEST(QuantizeBlock, MatchesTheSearchInDouble) {
  for (const auto& kind : GridKinds())
    for (const int bits : {2, 3, 4})
      for (const std::size_t m : {4, 16, 20, 32, 128}) {
        const Grid& grid = GridFor(kind.value, bits);
        for (unsigned seed = 0; seed < 20; ++seed) {
          const std::vector<float> z = Noise(m, 100 + seed);
          const double absmax = reference::AbsmaxScale(grid, z);
          // fp16 keeps 11 bits: half an ulp is 2^-11 relative.
          ASSERT_NEAR(ChooseScale(grid, ScaleRule::kAbsmax, z).value, absmax, std::abs(absmax) * 0x1p-11);
          // Two rungs may tie but for rounding, so errors are compared, not scales: the fp16 scale adds at
          // most a second-order term, (2^-11)^2 of the energy, and codes chosen again only lower the error.
          double energy = 0;
          for (const float v : z) energy += static_cast<double>(v * v);
          const double scale = ChooseScale(grid, ScaleRule::kMse, z).value;
          ASSERT_LE(reference::BlockError(grid, scale, z),
                    reference::BlockError(grid, reference::MseScale(grid, z), z) * (1 + 1e-3) + 1e-6 * energy)
              << kind.name << bits << " m=" << m << " seed " << seed;
        }
      }
}

TEST(QuantizeBlock, CodesAreTheNearestLevels) {
  for (const auto& kind : GridKinds())
    for (const int bits : {2, 3, 4}) {
      const Grid& grid = GridFor(kind.value, bits);
      const std::vector<float> z = Noise(1000, 7);
      const std::vector<std::uint8_t> codes = Codes(grid, 0.5f, z);
      for (std::size_t i = 0; i < z.size(); ++i) {
        ASSERT_EQ(grid.levels[codes[i]],
                  static_cast<float>(reference::NearestLevel(grid, 2 * static_cast<double>(z[i]))));
        ASSERT_EQ(codes[i], NearestCode(grid, 2 * z[i]));
      }
    }
}

// calib/MATH.md section 2: NMSE of N(0,1) at 3 bits with the best scale. One block's NMSE scatters by about a
// third, so 6,000 blocks give .4 % (one sigma); the table's last digit is .25 %. Three sigma and the
// digit: 1.5 %.
TEST(QuantizeBlock, ErrorOnNormalDataIsTheTabulatedOne) {
  struct Row {
    GridKind kind;
    std::array<double, 4> nmse;  // m = 16, 32, 64, 128
  };
  const Row rows[] = {{GridKind::kSymmetric, {.0313, .0379, .0422, .0445}},
                      {GridKind::kFull, {.0205, .0264, .0311, .0346}},
                      {GridKind::kLloyd, {.0206, .0256, .0293, .0317}}};
  const std::size_t sizes[] = {16, 32, 64, 128};
  const auto nmse = [](const Grid& grid, ScaleRule rule, std::size_t m) {
    const std::vector<float> z = Noise(6000 * m, 8);
    double error = 0, energy = 0;
    for (std::size_t base = 0; base < z.size(); base += m) {
      const std::span<const float> block(z.data() + base, m);
      std::vector<std::uint8_t> codes(m);
      const float scale = ChooseScale(grid, rule, block).value;
      ChooseCodes(grid, scale, block, codes);
      for (std::size_t i = 0; i < m; ++i) {
        const double e = static_cast<double>(scale * grid.levels[codes[i]] - block[i]);
        error += e * e;
        energy += static_cast<double>(block[i] * block[i]);
      }
    }
    return error / energy;
  };
  for (const Row& row : rows)
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_NEAR(nmse(GridFor(row.kind, 3), ScaleRule::kMse, sizes[k]), row.nmse[k], .015 * row.nmse[k])
          << NameOf(GridKinds(), row.kind) << " m = " << sizes[k];
  EXPECT_NEAR(nmse(GridFor(GridKind::kSymmetric, 3), ScaleRule::kAbsmax, 32), .0511, .015 * .0511);
}

TEST(QuantizeBlock, AllZeroAndVanishingBlocksHaveScaleZeroAndTheZeroCode) {
  for (const auto& kind : GridKinds())
    for (const auto& rule : ScaleRules()) {
      const Grid& grid = GridFor(kind.value, 3);
      for (const float v : {0.0f, -0.0f, 1e-8f, -1e-30f, 1e-45f}) {
        const std::vector<float> z = {v, 0, v, v, 0, 0, v, v};
        const BlockScale scale = ChooseScale(grid, rule.value, z);
        EXPECT_EQ(scale.half, 0);
        EXPECT_EQ(scale.value, 0);
        EXPECT_FALSE(scale.overflow);
        EXPECT_THAT(Codes(grid, scale.value, z), testing::Each(grid.zero_code));
      }
    }
}

TEST(QuantizeBlock, ScalesAbove65504Overflow) {
  EXPECT_EQ(RoundScale(65504).half, 0x7bff);
  EXPECT_TRUE(RoundScale(65505).overflow);
  EXPECT_TRUE(RoundScale(-65505).overflow);
  EXPECT_TRUE(RoundScale(std::numeric_limits<float>::quiet_NaN()).overflow);
  const Grid& grid = GridFor(GridKind::kSymmetric, 3);
  for (const auto& rule : ScaleRules()) {
    EXPECT_FALSE(ChooseScale(grid, rule.value, std::vector<float>{3 * 65504.0f, 0, 0, 0}).overflow);
    EXPECT_TRUE(ChooseScale(grid, rule.value, std::vector<float>{3 * 65600.0f, 0, 0, 0}).overflow);
    EXPECT_TRUE(ChooseScale(grid, rule.value, std::vector<float>{3e38f, 3e38f, 0, 0}).overflow);
  }
}

TEST(QuantizeBlock, FixedDotOrderByHand) {
  // 1e8 and -1e8 meet in partial sums 0 and 4, which are added first: the 1 in partial sum 2 survives.
  std::vector<float> a = {1e8f, 0, 1, 0, -1e8f, 0, 0, 0}, ones(8, 1.0f);
  EXPECT_EQ(FixedDot(a, ones), 1);
  // In partial sums 0 and 1 they meet last: the 1 is lost beside 1e8.
  a = {1e8f, -1e8f, 1, 0, 0, 0, 0, 0};
  EXPECT_EQ(FixedDot(a, ones), 0);
  a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};  // a tail of three
  EXPECT_EQ(FixedDot(a, std::vector<float>(11, 1.0f)), 66);
}

}  // namespace
}  // namespace so4cal
