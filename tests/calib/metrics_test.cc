// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/error.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

SideTable OneHead(int head_dim, Family family) {
  SideTable side;
  side.codec = {.head_dim = head_dim};
  side.family = family;
  HeadTable head;
  head.transform.head_dim = head_dim;
  head.transform.stages = HadamardStages(head_dim);
  head.transform.offset.assign(static_cast<std::size_t>(head_dim), 0.5f);
  side.heads = {head};
  side.outcomes.resize(1);
  return side;
}

TEST(Baselines, AreWhatTheirNamesSay) {
  const SideTable side = OneHead(64, Family::kButterfly);
  const HeadTransform none = BaselineTable(side, 0, Baseline::kNone).Effective();
  EXPECT_TRUE(none.offset.empty() && !none.hadamard && none.stages.empty());
  const HeadTransform hadamard = BaselineTable(side, 0, Baseline::kHadamard).Effective();
  EXPECT_TRUE(hadamard.offset.empty() && hadamard.hadamard && hadamard.stages.empty());
  const HeadTransform with_offset = BaselineTable(side, 0, Baseline::kHadamardOffset).Effective();
  EXPECT_TRUE(with_offset.hadamard && with_offset.offset == side.heads[0].transform.offset);
  EXPECT_EQ(BaselineTable(side, 0, Baseline::kCalibrated), side.heads[0]);
}

// A head whose fitted map is the start is stored exactly as `hadamard_offset`, up to f32 rounding in the map:
// the two errors agree to 1e-3 (a code may flip), and about as many blocks win as lose.
TEST(MeasureBaselines, AnUnfittedButterflyIsHadamard) {
  const SideTable side = OneHead(64, Family::kButterfly);
  const std::vector<float> rows = Noise(300 * 64, 41);
  const auto errors = MeasureBaselines(side, 0, {rows.data(), 300, 64, 64}, {});
  ASSERT_EQ(errors.size(), Baselines().size());
  EXPECT_NEAR(errors[5].distortion.nmse() / errors[3].distortion.nmse(), 1, 1e-3);
  EXPECT_FALSE(errors[3].blocks_improved.has_value());
  EXPECT_TRUE(errors[0].blocks_improved.has_value());
}

// Without an offset the baselines with and without one are the same codec.
TEST(MeasureBaselines, OffsetlessBaselinesCoincide) {
  SideTable side = OneHead(64, Family::kButterfly);
  side.heads[0].transform.offset.clear();
  const std::vector<float> rows = Noise(100 * 64, 42);
  const auto errors = MeasureBaselines(side, 0, {rows.data(), 100, 64, 64}, std::vector<float>(64, 0.0f));
  EXPECT_EQ(errors[1].distortion.error_energy, errors[3].distortion.error_energy);
  EXPECT_EQ(errors[0].distortion.energy, errors[0].distortion.centred_energy);  // mean zero
  EXPECT_EQ(errors[1].blocks_improved, 0.0);                                    // equal is not improved
}

TEST(MeasureDistortion, NamesTheTokenThatCannotBeStored) {
  std::vector<float> rows = Noise(10 * 64, 43);
  rows[5 * 64 + 7] = std::numeric_limits<float>::quiet_NaN();
  const SideTable side = OneHead(64, Family::kButterfly);
  try {
    MeasureDistortion(side.codec, side.heads[0], {rows.data(), 10, 64, 64}, {});
    FAIL() << "a NaN was stored";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("token 5, channel 7"), std::string::npos) << e.what();
  }
}

TEST(ChannelMean, ByHand) {
  const std::vector<float> rows = {1, 2, 3, 6};
  EXPECT_EQ(ChannelMean({rows.data(), 2, 2, 2}), (std::vector<float>{2, 4}));
}

TEST(GeometricMean, ByHand) {
  const double values[] = {0.5, 2, 8};
  EXPECT_NEAR(GeometricMean(values), 2, 1e-15);
  EXPECT_TRUE(std::isnan(GeometricMean({})));
}

}  // namespace
}  // namespace so4cal
