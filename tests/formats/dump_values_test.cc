// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lib/error.h"
#include "tests/support/dump_writer.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const Activations& a, std::size_t first, std::size_t count) {
  try {
    CheckFinite(a, first, count, "a.h5: /k");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Property: a single bad value is found at every place, by each kind of bad value.
TEST(CheckFinite, FindsEveryPlace) {
  const Activations good = testing::ExactActivations(2, 13, 8, 1);
  EXPECT_EQ(ErrorOf(good, 0, 13), "");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t i = 0; i < good.values.size(); ++i) {
      Activations a = good;
      a.values[i] = bad;
      const std::string place = "token " + std::to_string(i / 8 % 13) + ", head " + std::to_string(i / 104) +
                                ", channel " + std::to_string(i % 8) + ";";
      EXPECT_THAT(ErrorOf(a, 0, 13), AllOf(HasSubstr(place), HasSubstr("found 1 that")));
    }
  }
}

TEST(CheckFinite, OnlyTheTokensAskedFor) {
  Activations a = testing::ExactActivations(2, 20, 8, 1);
  a.values[(20 + 12) * 8 + 3] = std::numeric_limits<float>::quiet_NaN();  // head 1, token 12, channel 3
  EXPECT_EQ(ErrorOf(a, 0, 12), "");
  EXPECT_EQ(ErrorOf(a, 13, 7), "");
  EXPECT_THAT(ErrorOf(a, 10, 10), HasSubstr("token 2, head 1, channel 3"));  // counted in the file
}

TEST(CheckFinite, LargestAndSubnormalAreFine) {
  const float fine[] = {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min(), -0.f};
  EXPECT_NO_THROW(CheckFinite(fine, "w_o"));
}

TEST(FindConstantHeads, ByHand) {
  Activations a = testing::ExactActivations(4, 5, 8, 2);
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t c = 0; c < 8; ++c) {
      a.values[(5 + t) * 8 + c] = static_cast<float>(c);  // head 1: one vector
      a.values[(10 + t) * 8 + c] = t % 2 ? 0.f : -0.f;    // head 2: zero
      a.values[(15 + t) * 8 + c] = t == 4 && c == 7;      // head 3: differs in the last value
    }
  }
  EXPECT_THAT(FindConstantHeads(a), ElementsAre(1, 2));
  EXPECT_EQ(DescribeConstantHead(a, 1), "the same vector at every token");
  EXPECT_EQ(DescribeConstantHead(a, 2), "all zero");
}

}  // namespace
}  // namespace so4cal
