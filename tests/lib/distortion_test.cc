// SPDX-License-Identifier: Apache-2.0
#include "lib/distortion.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random_data.h"

namespace so4cal {
namespace {

TEST(Distortion, ByHand) {
  Distortion d;
  const std::vector<float> x = {3, 4}, x_hat = {3, 3.5f}, mean = {2, 4};
  d.Add(x, x_hat, mean);
  EXPECT_EQ(d.num_rows, 1u);
  EXPECT_EQ(d.error_energy, 0.25);
  EXPECT_EQ(d.energy, 25);
  EXPECT_EQ(d.centred_energy, 1);
  EXPECT_EQ(d.max_abs, 0.5);
  EXPECT_EQ(d.nmse(), 0.01);
  EXPECT_EQ(d.nmse_centred(), 0.25);
  EXPECT_NEAR(d.sqnr_db(), 20, 1e-12);
  Distortion raw;
  raw.Add(x, x_hat, {});
  EXPECT_EQ(raw.centred_energy, raw.energy);
}

TEST(Distortion, PartsMergeToTheWhole) {
  const std::vector<float> x = Noise(64 * 10, 160), x_hat = Noise(64 * 10, 161);
  Distortion whole, first, second;
  for (std::size_t t = 0; t < 10; ++t) {
    const auto row = std::span(x).subspan(64 * t, 64), row_hat = std::span(x_hat).subspan(64 * t, 64);
    whole.Add(row, row_hat, {});
    (t < 4 ? first : second).Add(row, row_hat, {});
  }
  first.Merge(second);
  EXPECT_EQ(first.num_rows, whole.num_rows);
  EXPECT_EQ(first.max_abs, whole.max_abs);
  EXPECT_NEAR(first.error_energy, whole.error_energy, 1e-12 * whole.error_energy);  // other order of sums
  EXPECT_NEAR(first.energy, whole.energy, 1e-12 * whole.energy);
}

}  // namespace
}  // namespace so4cal
