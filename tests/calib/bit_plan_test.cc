// SPDX-License-Identifier: Apache-2.0
#include "calib/bit_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "lib/error.h"

namespace so4cal {
namespace {

PlanItem Item(std::uint64_t values, std::vector<double> errors) {
  PlanItem item{.values_per_token = values, .choices = {}};
  for (std::size_t c = 0; c < errors.size(); ++c)  // 2.5, 3.5 and 4.5 bits per value
    item.choices.push_back({{.bits = static_cast<int>(c) + 2, .block = 32}, errors[c], 0});
  return item;
}

TEST(BitPlan, StoredBitsCountTheScale) {
  EXPECT_EQ((BitChoice{3, 32}.bits_per_value()), 3.5);
  EXPECT_EQ((BitChoice{3, 64}.bits_per_value()), 3.25);
  EXPECT_EQ((BitChoice{4, 128}.bits_per_value()), 4.125);
}

// By hand. Two equal sides, budget 3.5: the loud one gets 4 bits and the quiet one 2.
TEST(BitPlan, BitsGoWhereTheAbsoluteErrorIs) {
  const std::vector<PlanItem> items{Item(64, {100, 30, 8}), Item(64, {1, 0.3, 0.08})};
  EXPECT_THAT(ChooseBits(items, 3.5), testing::ElementsAre(2, 0));
  EXPECT_EQ(AverageBits(items, ChooseBits(items, 3.5)), 3.5);
  EXPECT_EQ(TotalError(items, ChooseBits(items, 3.5)), 9);
  EXPECT_THAT(ChooseBits(items, 4.5), testing::ElementsAre(2, 2));
  EXPECT_THAT(ChooseBits(items, 2.5), testing::ElementsAre(0, 0));
}

TEST(BitPlan, WiderSidesCostMoreBits) {  // the same error, but 4 times the values
  const std::vector<PlanItem> items{Item(256, {100, 30, 8}), Item(64, {100, 30, 8})};
  EXPECT_THAT(ChooseBits(items, 2.9), testing::ElementsAre(0, 2));
}

TEST(BitPlan, ABudgetBelowTheCheapestIsRefused) {
  try {
    ChooseBits(std::vector{Item(64, {3, 2, 1})}, 2.4);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("--budget is 2.4 bits per value, expected at least 2.500"));
  }
}

TEST(BitPlan, MoreBitsThatDoNotHelpAreNotSpent) {
  EXPECT_THAT(ChooseBits(std::vector{Item(64, {1, 1, 2})}, 4.5), testing::ElementsAre(0));
}

// Against every combination of five sides. The gap: at most what one step of one side saves.
TEST(BitPlan, IsNearTheBestOfAllCombinations) {
  std::mt19937 rng(5);
  std::uniform_real_distribution<double> loudness(0, 8);
  for (int round = 0; round < 50; ++round) {
    std::vector<PlanItem> items;
    double largest_step = 0;
    for (int i = 0; i < 5; ++i) {
      const double e = std::exp(loudness(rng));
      items.push_back(Item(64, {e, 0.28 * e, 0.08 * e}));
    }
    const std::vector<std::size_t> chosen = ChooseBits(items, 3.5);
    EXPECT_LE(AverageBits(items, chosen), 3.5 + 1e-9);
    double best = std::numeric_limits<double>::infinity();
    for (int code = 0; code < 243; ++code) {
      std::vector<std::size_t> combination;
      for (int i = 0, rest = code; i < 5; ++i, rest /= 3)
        combination.push_back(static_cast<std::size_t>(rest % 3));
      if (AverageBits(items, combination) <= 3.5 + 1e-9)
        best = std::min(best, TotalError(items, combination));
    }
    for (std::size_t i = 0; i < items.size(); ++i)
      if (chosen[i] < 2)
        largest_step =
            std::max(largest_step, items[i].choices[chosen[i]].error - items[i].choices[chosen[i] + 1].error);
    EXPECT_LE(TotalError(items, chosen), best + largest_step);
    EXPECT_GE(TotalError(items, chosen), best);
  }
}

}  // namespace
}  // namespace so4cal
