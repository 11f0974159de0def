// SPDX-License-Identifier: Apache-2.0
#include "formats/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

PlanFile Sample() {
  return {3.5,
          3.375,
          "output_wo",
          {{7, Side::kKey, 4, 64, 4.25, 0.125, 3.5},
           {7, Side::kValue, 2, 32, 2.5, 0.25, std::numeric_limits<double>::quiet_NaN()}}};
}

class PlanFileTest : public ::testing::Test {
 protected:
  PlanFile Read(const std::string& text) {
    WriteBytesAtomically(path_, text);
    return ReadPlanFile(path_);
  }
  std::string ErrorOf(const std::string& text) {
    try {
      Read(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  testing::TempFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "plan.json";
};

TEST_F(PlanFileTest, ReadsWhatItWrites) {
  const PlanFile read = Read(PlanJson(Sample()));
  ASSERT_EQ(read.rows.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.rows[i].layer, Sample().rows[i].layer);
    EXPECT_EQ(read.rows[i].side, Sample().rows[i].side);
    EXPECT_EQ(read.rows[i].bits, Sample().rows[i].bits);
    EXPECT_EQ(read.rows[i].block, Sample().rows[i].block);
  }
  EXPECT_THAT(PlanJson(Sample()), ::testing::HasSubstr("\"logit_error\": null}\n ]}"));
}

TEST_F(PlanFileTest, MayBeWrittenByHand) {
  const PlanFile read = Read(
      R"({"format": "so4cal-plan", "version": 1, "sides": [{"layer": 3, "side": "v", "bits": 2, "block": 64}]})");
  ASSERT_EQ(read.rows.size(), 1u);
  EXPECT_EQ(read.rows[0].block, 64);
}

TEST_F(PlanFileTest, SaysWhatIsWrong) {
  const auto with_row = [](const std::string& row) {
    return R"({"format": "so4cal-plan", "version": 1, "sides": [)" + row + "]}";
  };
  EXPECT_THAT(ErrorOf("{}"), ::testing::HasSubstr("plan.json: no plan, expected"));
  EXPECT_THAT(ErrorOf(R"({"format": 3})"), ::testing::HasSubstr("no plan"));
  EXPECT_THAT(ErrorOf(R"({"format": "so4cal-plan", "version": 2, "sides": []})"),
              ::testing::HasSubstr("version is 2"));
  EXPECT_THAT(ErrorOf(R"({"format": "so4cal-plan", "version": 1})"), ::testing::HasSubstr("`sides`"));
  EXPECT_THAT(ErrorOf(with_row("3")), ::testing::HasSubstr("sides[0]: is no object"));
  EXPECT_THAT(ErrorOf(with_row(R"({"layer": 0, "side": "q", "bits": 3, "block": 32})")),
              ::testing::HasSubstr("side is \"q\""));
  EXPECT_THAT(ErrorOf(with_row(R"({"layer": 0, "side": "k", "bits": 5, "block": 32})")),
              ::testing::HasSubstr("bits is 5, expected a whole number from 2 to 4"));
  EXPECT_THAT(ErrorOf(with_row(R"({"layer": 0, "side": "k", "bits": 3})")),
              ::testing::HasSubstr("block is missing"));
  const std::string row = R"({"layer": 0, "side": "k", "bits": 3, "block": 32})";
  EXPECT_THAT(ErrorOf(with_row(row + ", " + row)), ::testing::HasSubstr("layer 0 k is there twice"));
}

}  // namespace
}  // namespace so4cal
