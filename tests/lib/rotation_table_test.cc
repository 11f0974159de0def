// SPDX-License-Identifier: Apache-2.0
#include "lib/rotation_table.h"

#include <gmock/gmock.h>

#include <cmath>

#include "lib/error.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Layers 3 and 7, two heads, head_dim 16.
RotationTable Table() {
  RotationTable table;
  table.dumps.push_back({"a.h5", 100, 50, {{{4, 20}, {25, 30}}, {{30, 40}}, {{40, 50}}}});
  for (const int id : {3, 7}) {
    LayerTable layer;
    layer.layer = id;
    layer.hashes.resize(1);
    layer.counts = {{"sinks", 4}, {"fallbacks", static_cast<std::uint64_t>(id)}};
    for (SideTable& side : layer.sides) {
      side.codec.head_dim = 16;
      side.codec.block = 8;
      side.outcomes.resize(2);
      for (unsigned h = 0; h < 2; ++h) {
        HeadTable head;
        head.transform = RandomTransform(16, 170 + h);
        side.heads.push_back(head);
      }
    }
    table.layers.push_back(layer);
  }
  return table;
}

TEST(RotationTable, CheckNamesLayerSideHeadAndField) {
  const auto refused = [](auto change, const char* reason) {
    RotationTable table = Table();
    ASSERT_NO_THROW(table.Check());
    change(table);
    EXPECT_THAT([&] { table.Check(); }, ThrowsMessage<Error>(HasSubstr(reason)));
  };
  const auto value_head = [](RotationTable& t) -> HeadTable& {
    return t.layers[1].side(Side::kValue).heads[1];
  };
  const auto key_outcome = [](RotationTable& t) -> HeadOutcome& {
    return t.layers[0].side(Side::kKey).outcomes[0];
  };
  refused([](RotationTable& t) { t.layers.clear(); }, "no layers");
  refused([](RotationTable& t) { t.layers[1].layer = 3; }, "layer 3: follows layer 3");
  refused([](RotationTable& t) { t.layers[0].layer = -1; }, "layer -1");
  refused([](RotationTable& t) { t.num_model_layers = 7; }, "layer 7: expected an id below");
  refused([](RotationTable& t) { t.dump_layers = {3, 7, 7}; }, "dump_layers: expected ascending");
  refused(
      [](RotationTable& t) {
        t.dump_layers = {3, 8};
      },
      "layer 7: expected a layer that dump_layers lists");
  refused([](RotationTable& t) { t.layers[0].hashes.clear(); }, "hashes of 0 dumps");
  refused([](RotationTable& t) { t.layers[0].sides[1].codec.bits = 7; }, "layer 3, side v: bits is 7");
  refused([](RotationTable& t) { t.layers[0].sides[0].family = static_cast<Family>(77); },
          "no name for value 77");
  refused([](RotationTable& t) { t.layers[0].sides[0].outcomes.pop_back(); },
          "layer 3, side k: has 1 outcomes for 2");
  refused(
      [](RotationTable& t) {
        t.layers[0].sides[0].heads.pop_back();
        t.layers[0].sides[0].outcomes.pop_back();
      },
      "layer 3: has 1 key heads and 2 value heads");
  refused([&](RotationTable& t) { value_head(t).transform.signs[2] = 0; },
          "layer 7, side v, head 1: sign of channel 2");
  refused([&](RotationTable& t) { value_head(t).transform = RandomTransform(24, 1); },
          "head 1: head_dim is 24");
  refused([&](RotationTable& t) { value_head(t).transform.stages.pop_back(); }, "differ from head 0's");
  refused([&](RotationTable& t) { value_head(t).transform.hadamard = false; }, "differ from head 0's");
  refused([](RotationTable& t) { t.layers[0].sides[0].family = Family::kDense; },
          "expected 'dense' in both or in neither");
  refused([&](RotationTable& t) { key_outcome(t).shrink = NAN; }, "side k, head 0: shrink");
  refused([&](RotationTable& t) { key_outcome(t).shrink = 1.5f; }, "shrink is 1.5");
  refused([&](RotationTable& t) { key_outcome(t).iterations = -1; }, "iterations is -1");
  refused([&](RotationTable& t) { key_outcome(t).converged = 2; }, "converged is 2");
  refused([&](RotationTable& t) { key_outcome(t).errors.test_chosen = -0.1; },
          "error figure test_chosen is -0.1");
  refused([&](RotationTable& t) { key_outcome(t).errors.decision_fitted = -1; },
          "error figure decision_fitted");
  refused([&](RotationTable& t) { key_outcome(t).errors.test_chosen = INFINITY; }, "error figure");
  refused([](RotationTable& t) { t.dumps[0].split.fit[0] = {20, 4}; }, "a.h5");
  refused([](RotationTable& t) { t.dumps[0].split.fit[1].begin = 19; }, "ascending ranges");
  refused([](RotationTable& t) { t.dumps[0].split.test[0].end = 51; }, "its 50 tokens");
  RotationTable unmeasured = Table();
  unmeasured.layers[0].sides[0].outcomes[0].errors.test_chosen = NAN;
  EXPECT_NO_THROW(unmeasured.Check());
}

TEST(HeadErrors, NotMeasuredEqualsNotMeasuredAndEveryFigureCounts) {
  const HeadErrors unmeasured;
  EXPECT_EQ(unmeasured, HeadErrors{});
  for (const HeadErrors::Field& field : HeadErrors::Fields()) {
    EXPECT_TRUE(std::isnan(unmeasured.*field.value)) << field.name;
    HeadErrors other, third;
    other.*field.value = 0.5;
    third.*field.value = 0.25;
    EXPECT_NE(other, unmeasured) << field.name;
    EXPECT_NE(other, third) << field.name;
  }
}

TEST(RotationTable, FindLayerGoesByIdAndTotalsAddUp) {
  const RotationTable table = Table();
  EXPECT_EQ(table.FindLayer(7), &table.layers[1]);
  EXPECT_EQ(table.FindLayer(1), nullptr);
  EXPECT_THAT(table.TotalCounts(),
              testing::UnorderedElementsAre(testing::Pair("sinks", 8), testing::Pair("fallbacks", 10)));
}

TEST(RotationTable, NamesRoundTrip) {
  for (const auto& row : Families()) EXPECT_EQ(ParseName(Families(), row.name, "--rotation"), row.value);
  for (const auto& row : LossKinds()) EXPECT_EQ(ParseName(LossKinds(), row.name, "--loss"), row.value);
  for (const auto& row : Objectives()) EXPECT_EQ(ParseName(Objectives(), row.name, "--objective"), row.value);
  EXPECT_THAT([] { ParseName(LossKinds(), "Exact", "--loss"); },
              ThrowsMessage<Error>("--loss is 'Exact', expected one of expected, exact"));
}

}  // namespace
}  // namespace so4cal
