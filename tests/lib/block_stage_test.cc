// SPDX-License-Identifier: Apache-2.0
#include "lib/block_stage.h"

#include <gmock/gmock.h>

#include "tests/reference/transform_matrix.h"
#include "tests/support/each_target.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

std::vector<float> Blocks(const Stage& stage) {
  std::vector<float> blocks;
  for (const So4& block : stage.blocks)
    for (const double v : ToMatrix(block)) blocks.push_back(static_cast<float>(v));
  return blocks;
}

// Rounding of 4 products and 3 sums of terms of at most 5, and of the coefficients themselves.
constexpr double kTolerance = 5 * 8 * 6e-8;

TEST(BlockStage, MatchesTheMatrixAndIsTheSameOnEveryTarget) {
  for (const int head_dim : kHeadDims) {
    for (int stride = 1; 4 * stride <= head_dim; ++stride) {
      if (head_dim % (4 * stride) != 0) continue;
      const Stage stage =
          RandomStages(head_dim, std::span(&stride, 1), 50u + static_cast<unsigned>(stride))[0];
      const auto n = static_cast<std::size_t>(head_dim);
      const std::vector<double> u = reference::StageMatrix(stage, n);
      const std::size_t num_rows = 3;
      const std::vector<float> x = Noise(num_rows * n, 51);
      std::vector<float> first;
      ForEachTarget([&] {
        std::vector<float> y = x;
        ApplyStage(StageFromBlocks(stride, Blocks(stage)), head_dim, y);
        if (first.empty()) first = y;
        ASSERT_EQ(y, first) << head_dim << " " << stride;
      });
      for (std::size_t row = 0; row < num_rows; ++row)
        for (std::size_t i = 0; i < n; ++i) {
          double want = 0;
          for (std::size_t j = 0; j < n; ++j) want += u[i * n + j] * static_cast<double>(x[row * n + j]);
          ASSERT_NEAR(first[row * n + i], want, kTolerance) << head_dim << " stride " << stride;
        }
    }
  }
}

// By hand: one block that moves its four channels round, at stride 2 of 8 channels.
TEST(BlockStage, StrideTwoByHand) {
  const std::vector<float> cycle = {0, 0, 0, 1, 1, 0, 0, 0,
                                    0, 1, 0, 0, 0, 0, 1, 0};  // out = (v3, v0, v1, v2)
  std::vector<float> blocks = cycle;
  for (int i = 0; i < 16; ++i) blocks.push_back(i % 5 == 0 ? 1.0f : 0.0f);
  std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7};
  ApplyStage(StageFromBlocks(2, blocks), 8, x);
  EXPECT_THAT(x, testing::ElementsAre(6, 1, 0, 3, 2, 5, 4, 7));
  ApplyStage(Transposed(StageFromBlocks(2, blocks)), 8, x);
  EXPECT_THAT(x, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(BlockStage, LayoutsRoundTrip) {
  const std::vector<float> blocks = Noise(16 * 20, 52);
  EXPECT_EQ(BlocksFromStage(StageFromBlocks(4, blocks)), blocks);
  EXPECT_EQ(BlocksFromStage(Transposed(Transposed(StageFromBlocks(4, blocks)))), blocks);
  EXPECT_EQ(StageFromBlocks(1, blocks).coefficients[20 + 3], blocks[3 * 16 + 1]);  // entry 1 of block 3
}

}  // namespace
}  // namespace so4cal
