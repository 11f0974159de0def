// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_options.h"

#include <gmock/gmock.h>

#include "lib/error.h"

namespace so4cal {
namespace {

TEST(FitOptions, EveryPresetPassesItsOwnCheck) {
  for (const Preset& preset : Presets()) EXPECT_NO_THROW(preset.options.Check()) << preset.name;
}

TEST(FitOptions, AutomaticBlockIsTheLargestPowerOfTwoUpTo32ThatDivides) {
  const SideOptions side;
  for (const auto& [head_dim, block] :
       {std::pair{64, 32}, {80, 16}, {96, 32}, {112, 16}, {128, 32}, {200, 8}})
    EXPECT_EQ(side.Codec(head_dim).block, block) << head_dim;
}

TEST(FitOptions, ExplicitBlockMustDivide) {
  SideOptions side;
  side.block = 32;
  EXPECT_THROW(side.Codec(80), Error);
  side.block = 20;
  EXPECT_EQ(side.Codec(80).block, 20);
}

TEST(FitOptions, HadamardIsOnExceptForAButterfly) {
  SideOptions side;
  for (const Family family :
       {Family::kButterfly, Family::kSo4, Family::kLeft, Family::kPlanar, Family::kNone}) {
    side.rotation = family;
    EXPECT_EQ(side.ResolvedHadamard(), family != Family::kButterfly);
  }
}

TEST(FitOptions, RefusesWhatCannotBe) {
  const auto broken = [](auto edit) {
    FitOptions options;
    edit(options);
    EXPECT_THROW(options.Check(), UsageError);
  };
  broken([](FitOptions& o) { o.sides[0].bits = 5; });
  broken([](FitOptions& o) { o.sides[1].bits = 1; });
  broken([](FitOptions& o) { o.sides[0].block = 1; });
  broken([](FitOptions& o) { o.sides[0].rotation = Family::kDense; });
  broken([](FitOptions& o) { o.sides[0].hadamard = HadamardChoice::kOn; });
  broken([](FitOptions& o) { o.split.fit_percent = 10; });
  broken([](FitOptions& o) { o.max_iterations = 0; });
  broken([](FitOptions& o) { o.threads = -1; });
}

}  // namespace
}  // namespace so4cal
