// SPDX-License-Identifier: Apache-2.0
#include "calib/key_judge.h"

#include <gtest/gtest.h>

#include "tests/support/random_data.h"

namespace so4cal {
namespace {

constexpr int kHeadDim = 64;

LayerAttention TwoSequences(std::size_t tokens) {
  LayerAttention layer;
  layer.queries = {2, tokens, kHeadDim, Noise(2 * tokens * kHeadDim, 81)};
  for (std::uint64_t t = 0; t < tokens; ++t) layer.positions.push_back(t);
  layer.sequence_starts = {0, 100};
  layer.softmax_scale = 0.125;
  return layer;
}

HeadTable Plain() {
  HeadTable table;
  table.transform.head_dim = kHeadDim;
  table.chosen = Chosen::kIdentity;
  return table;
}

// Keys that no counted query can see change nothing, though they are not stored at all.
TEST(KeyJudge, OnlyKeysThatAreSeenMatter) {
  const LayerAttention layer = TwoSequences(200);
  std::vector<float> keys = Noise(200 * kHeadDim, 82);
  const TokenRange counted[] = {{140, 160}};
  const HeadTable table = Plain();
  const auto measure = [&] {
    const KeyJudge judge(layer, {keys.data(), 200, kHeadDim, kHeadDim}, 0, 1, {.head_dim = kHeadDim},
                         counted);
    return judge.Measure({&table, 1})[0];
  };
  const AttentionErrors before = measure();
  EXPECT_EQ(before.num_rows, 2u * 20);
  EXPECT_GT(before.attention_kl(), 0);
  for (std::size_t t = 0; t < 200; ++t)
    if (t < 100 || t >= 160) keys[t * kHeadDim] += 50;  // the other sequence, and the future
  const AttentionErrors after = measure();
  EXPECT_EQ(after.kl, before.kl);
  EXPECT_EQ(after.logit_error, before.logit_error);
}

TEST(KeyJudge, KnowsWhenThereIsNothingToAsk) {
  LayerAttention layer = TwoSequences(200);
  const std::vector<float> keys = Noise(200 * kHeadDim, 83);
  const HeadView view{keys.data(), 200, kHeadDim, kHeadDim};
  const TokenRange counted[] = {{150, 200}};
  EXPECT_TRUE(KeyJudge(layer, view, 0, 1, {.head_dim = kHeadDim}, counted).has_queries());
  layer.plain_softmax = false;
  EXPECT_FALSE(KeyJudge(layer, view, 0, 1, {.head_dim = kHeadDim}, counted).has_queries());
  layer.plain_softmax = true;
  for (std::uint64_t& position : layer.positions) position /= 2;  // no row in the counted tokens
  EXPECT_FALSE(KeyJudge(layer, view, 0, 1, {.head_dim = kHeadDim}, counted).has_queries());
}

}  // namespace
}  // namespace so4cal
