// SPDX-License-Identifier: Apache-2.0
#include "formats/recognize_blocks.h"

#include <gtest/gtest.h>

#include "tests/support/sample_table.h"

namespace so4cal {
namespace {

using testing::SampleTable;

HeadTransform Blocks(bool hadamard) {
  HeadTransform t =
      SampleTable({.family = Family::kSo4, .head_dim = 48}).layers[0].sides[0].heads[0].transform;
  t.hadamard = hadamard;
  return t;
}

// Blocks come back as the canonical quaternions that made them: to the rounding of 4 x 4 products in double.
TEST(RecognizeBlocks, FindsTheQuaternions) {
  for (const bool hadamard : {false, true}) {
    const HeadTransform t = Blocks(hadamard);
    const auto found = RecognizeBlocks(DenseMatrix(t), 48, hadamard, 1e-9);
    ASSERT_TRUE(found.has_value());
    for (std::size_t i = 0; i < 12; ++i)
      for (std::size_t c = 0; c < 4; ++c) {
        EXPECT_NEAR(found->stages[0].blocks[i].left[c], t.stages[0].blocks[i].left[c], 1e-12);
        EXPECT_NEAR(found->stages[0].blocks[i].right[c], t.stages[0].blocks[i].right[c], 1e-12);
      }
    EXPECT_FALSE(RecognizeBlocks(DenseMatrix(t), 48, !hadamard, 1e-3).has_value());
  }
}

TEST(RecognizeBlocks, OtherMatricesAreNone) {
  std::vector<double> u = DenseMatrix(Blocks(false));
  u[4] += 1e-4;  // outside the blocks
  EXPECT_FALSE(RecognizeBlocks(u, 48, false, 1e-5).has_value());
  EXPECT_TRUE(RecognizeBlocks(u, 48, false, 1e-3).has_value());
  u = DenseMatrix(Blocks(false));
  for (std::size_t c = 0; c < 4; ++c) u[c] = -u[c];  // a reflection
  EXPECT_FALSE(RecognizeBlocks(u, 48, false, 1e-5).has_value());
  u.assign(u.size(), 0.0);
  EXPECT_FALSE(RecognizeBlocks(u, 48, false, 1e-5).has_value());
  u[0] = NAN;
  EXPECT_FALSE(RecognizeBlocks(u, 48, false, 1e-5).has_value());
}

TEST(RecognizeBlocks, Identity) {
  std::vector<double> u(64, 0.0);
  for (std::size_t i = 0; i < 8; ++i) u[9 * i] = 1;
  EXPECT_TRUE(IsIdentity(u, 8, 1e-12));
  u[1] = 1e-3;
  EXPECT_FALSE(IsIdentity(u, 8, 1e-5));
}

}  // namespace
}  // namespace so4cal
