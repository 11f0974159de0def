// SPDX-License-Identifier: Apache-2.0
#include "formats/table_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"
#include "tests/support/sample_table.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleTable;

RotationTable Whole() { return SampleTable({.layers = {0, 2, 5}}); }

// The table with these of its layers only, as a shard of the fit has it.
TablePart Part(const std::string& name, const std::vector<int>& layers) {
  TablePart part{name, Whole()};
  std::erase_if(part.table.layers, [&](const LayerTable& layer) {
    return std::ranges::find(layers, layer.layer) == layers.end();
  });
  return part;
}

std::string ErrorOf(const std::vector<TablePart>& parts, const std::vector<int>& layers = {0, 2, 5}) {
  try {
    MergeTables(parts, layers);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MergeTables, PartsInAnyOrderGiveTheWhole) {
  EXPECT_EQ(MergeTables({Part("b", {2}), Part("c", {5}), Part("a", {0})}, {0, 2, 5}), Whole());
  EXPECT_EQ(MergeTables({Part("a", {5, 0}), Part("b", {2})}, {0, 2, 5}), Whole());
  EXPECT_EQ(MergeTables({Part("a", {0, 2, 5})}, {0, 2, 5}), Whole());
}

TEST(MergeTables, NamesLayersThatAreMissingOrTwice) {
  EXPECT_THAT(ErrorOf({Part("a", {2})}), HasSubstr("layers 0, 5: in none"));
  EXPECT_THAT(ErrorOf({Part("a", {0, 2}), Part("b", {2, 5})}),
              AllOf(HasSubstr("layer 2: in 'a' and again in 'b'")));
  EXPECT_THAT(ErrorOf({Part("a", {0, 2, 5})}, {0, 2}), HasSubstr("layer 5: in the parts, but"));
}

TEST(MergeTables, NamesWhatDiffersBetweenFits) {
  const auto with = [](const auto& change) {
    TablePart other = Part("b", {2, 5});
    change(other.table);
    return ErrorOf({Part("a", {0}), other});
  };
  EXPECT_THAT(with([](RotationTable& t) { t.options_json = R"({"bits":{"k":3,"v":4}})"; }),
              HasSubstr("option bits/v: 3 in 'a', 4 in 'b'"));
  EXPECT_THAT(with([](RotationTable& t) { t.options_json = R"({"bits":{"k":3}})"; }),
              HasSubstr("option bits/v: 3 in 'a', none in 'b'"));
  EXPECT_THAT(with([](RotationTable& t) { t.dumps[1].name = "c.h5"; }),
              HasSubstr("dump: b.h5 in 'a', c.h5 in 'b'"));
  EXPECT_THAT(with([](RotationTable& t) { ++t.dumps[1].size_bytes; }), HasSubstr("bytes of dump b.h5: 1 in"));
  EXPECT_THAT(with([](RotationTable& t) { t.dumps[0].split.test.pop_back(); }),
              HasSubstr("split of dump a.h5"));
  EXPECT_THAT(with([](RotationTable& t) { t.tool_version = "0.0.1"; }),
              HasSubstr("version of so4cal: 0.1.0"));
  EXPECT_THAT(with([](RotationTable& t) { t.simd_target = "NEON"; }),
              HasSubstr("SIMD target: AVX2 in 'a', NEON in 'b'"));
  EXPECT_THAT(with([](RotationTable& t) { t.model = "other"; }), HasSubstr("model: sample"));
  EXPECT_THAT(with([](RotationTable& t) { t.dump_layers.push_back(7); }), HasSubstr("0,2,5,7 in 'b'"));
}

}  // namespace
}  // namespace so4cal
