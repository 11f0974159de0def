// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/error.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

constexpr std::size_t kTokens = 400;
const TokenSplit kSplit{{{0, 280}}, {{280, 340}}, {{340, 400}}};

SideInput Input(int layer, Side side) {
  Activations a{
      .num_heads = 3, .num_tokens = kTokens, .channels = side == Side::kKey ? 64 : 32, .values = {}};
  a.values = Noise(3 * kTokens * static_cast<std::size_t>(a.channels),
                   static_cast<unsigned>(layer * 2 + (side == Side::kValue)));
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] *= i % 7 == 0 ? 3.0f : 1.0f;
  return {std::move(a), {}};
}

std::vector<LayerTable> Fit(std::vector<int> layers, FitOptions options, FitCallbacks callbacks = {}) {
  std::vector<LayerTable> tables;
  if (!callbacks.read) callbacks.read = Input;
  callbacks.write = [&](LayerTable&& t) { tables.push_back(std::move(t)); };
  FitModel(layers, layers.size() * 6, kSplit, options, callbacks);
  return tables;
}

TEST(FitModel, TheSameAtAnyThreadCount) {
  FitOptions options = Presets()[1].options;  // both losses, many independent parts
  options.max_iterations = 15;
  options.threads = 1;
  const auto one = Fit({0, 3, 5}, options);
  for (const int threads : {2, 8}) {
    options.threads = threads;
    EXPECT_EQ(Fit({0, 3, 5}, options), one) << threads;
  }
}

TEST(FitModel, ReadsAndWritesInOrder) {
  FitOptions options;
  options.max_iterations = 2;
  std::vector<std::pair<int, Side>> reads;
  const auto tables = Fit({2, 7}, options, {.read = [&](int layer, Side side) {
                            reads.emplace_back(layer, side);
                            return Input(layer, side);
                          }});
  EXPECT_EQ(reads, (std::vector<std::pair<int, Side>>{
                       {2, Side::kKey}, {2, Side::kValue}, {7, Side::kKey}, {7, Side::kValue}}));
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].layer, 2);
  EXPECT_EQ(tables[1].layer, 7);
  EXPECT_EQ(tables[1].side(Side::kKey).codec.head_dim, 64);
  EXPECT_EQ(tables[1].side(Side::kValue).codec.head_dim, 32);
}

TEST(FitModel, CountsEveryHeadOnceInTheProgress) {
  FitOptions options;
  options.max_iterations = 2;
  std::vector<std::size_t> done;
  Fit({1, 2}, options, {.read = Input, .progress = [&](const FitProgress& p) {
                          EXPECT_EQ(p.heads_total, 12u);
                          done.push_back(p.heads_done);
                          return true;
                        }});
  ASSERT_EQ(done.size(), 12u);
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

TEST(FitModel, StopsWhenTold) {
  FitOptions options;
  options.max_iterations = 2;
  options.threads = 1;
  std::vector<LayerTable> tables;
  FitCallbacks callbacks{.read = Input,
                         .write = [&](LayerTable&& t) { tables.push_back(std::move(t)); },
                         .progress = [](const FitProgress& p) { return p.heads_done < 7; }};
  const std::vector<int> layers{1, 2, 3};
  EXPECT_FALSE(FitModel(layers, 18, kSplit, options, callbacks));
  EXPECT_LT(tables.size(), 3u);
}

TEST(FitModel, ConstantHeadsAreIdentityAndCounted) {
  FitOptions options;
  options.max_iterations = 2;
  const auto tables = Fit({0}, options, {.read = [](int layer, Side side) {
                            SideInput input = Input(layer, side);
                            if (side == Side::kKey) input.constant_heads = {1};
                            return input;
                          }});
  EXPECT_EQ(tables[0].side(Side::kKey).heads[1].chosen, Chosen::kIdentity);
  EXPECT_GE(tables[0].counts.at("k_identity"), 1u);
}

TEST(FitModel, SharedSidesHaveOneMap) {
  FitOptions options;
  options.max_iterations = 5;
  options.sides[0].share = Share::kLayer;
  const auto tables = Fit({0}, options, {.read = [](int layer, Side side) {
                            SideInput input = Input(layer, side);
                            if (side == Side::kKey) input.constant_heads = {1};
                            return input;
                          }});
  const SideTable& k = tables[0].side(Side::kKey);
  EXPECT_TRUE(k.shared);
  EXPECT_FALSE(tables[0].side(Side::kValue).shared);
  for (const HeadTable& head : k.heads) EXPECT_EQ(head.transform.stages, k.heads[0].transform.stages);
  EXPECT_EQ(k.heads[2].chosen, k.heads[0].chosen);
  EXPECT_EQ(k.heads[1].chosen, Chosen::kIdentity);  // the constant one
  EXPECT_EQ(tables[0].counts.at("k_identity"), 1u);
  EXPECT_EQ(tables[0].counts.at("k_" + std::string(NameOf(ChosenNames(), k.heads[0].chosen))), 2u);
  const SideTable& v = tables[0].side(Side::kValue);
  EXPECT_NE(v.heads[0].transform.stages, v.heads[2].transform.stages);
}

TEST(FitModel, PassesOnWhatTheSourceThrows) {
  FitOptions options;
  options.max_iterations = 1;
  EXPECT_THROW(Fit({0, 1}, options,
                   {.read =
                        [](int layer, Side side) {
                          if (layer == 1) throw Error("unreadable");
                          return Input(layer, side);
                        }}),
               Error);
}

}  // namespace
}  // namespace so4cal
