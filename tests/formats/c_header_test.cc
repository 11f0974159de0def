// SPDX-License-Identifier: Apache-2.0
#include "formats/c_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;
using testing::SampleOptions;
using testing::SampleTable;
using testing::TempFolder;

std::string Written(const RotationTable& table) {
  const TempFolder folder;
  WriteCHeader(table, folder / "t.h");
  return ReadFileBytes(folder / "t.h");
}

std::string ErrorOf(const std::string& text) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "bad.h", text);
  try {
    ReadCHeader(folder / "bad.h");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// The bytes keep the map in float: entries of U within the float rounding of each stage (4 products of
// numbers below 1, at most 3 stages and a Hadamard here).
TEST(CHeader, KeepsCodecAndMap) {
  for (const Family family :
       {Family::kButterfly, Family::kSo4, Family::kLeft, Family::kNone, Family::kDense}) {
    const TempFolder folder;
    const RotationTable table =
        SampleTable({.family = family, .value_dim = 32, .bits = 4, .rounding = Rounding::kRefined});
    WriteCHeader(table, folder / "t.h");
    const RotationTable read = ReadCHeader(folder / "t.h");
    ASSERT_EQ(read.layers.size(), table.layers.size());
    for (std::size_t l = 0; l < table.layers.size(); ++l)
      for (const Side s : kSides) {
        const SideTable &expected = table.layers[l].side(s), &found = read.layers[l].side(s);
        EXPECT_EQ(read.layers[l].layer, table.layers[l].layer);
        EXPECT_EQ(found.codec, expected.codec);
        ASSERT_EQ(found.heads.size(), expected.heads.size());
        for (std::size_t h = 0; h < expected.heads.size(); ++h) {
          EXPECT_EQ(found.heads[h].chosen, expected.heads[h].chosen);
          EXPECT_EQ(found.heads[h].rounding, expected.heads[h].rounding);
          EXPECT_EQ(found.heads[h].rounds, expected.heads[h].rounds);
          EXPECT_EQ(found.heads[h].metric, expected.heads[h].metric);
          EXPECT_EQ(found.heads[h].transform.offset, expected.heads[h].transform.offset);
          const auto u = DenseMatrix(found.heads[h].Effective()),
                     v = DenseMatrix(expected.heads[h].Effective());
          for (std::size_t i = 0; i < u.size(); ++i) ASSERT_NEAR(u[i], v[i], 1e-6);
        }
      }
  }
}

TEST(CHeader, LayoutByHand) {
  RotationTable table = SampleTable({.num_heads = 1, .layers = {5}});
  table.model = "evil */ model\n\xC3\xA9";
  const std::string text = Written(table);
  EXPECT_THAT(text, HasSubstr("   Model: evil ?/ model???\n"));  // can't end the comment
  EXPECT_THAT(text, HasSubstr("static const unsigned char so4cal_layer5_k_head0["));
  EXPECT_THAT(text, HasSubstr("enum { so4cal_num_heads = 2 };\nstatic const struct so4cal_head "
                              "so4cal_heads[2] = {\n  {5, 'k', 0, so4cal_layer5_k_head0, "));
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw Error("test: no '" + from + "'");
  return text.replace(at, from.size(), to);
}

TEST(CHeader, RefusesWhatIsNotItsOwnLayout) {
  const std::string good = Written(SampleTable({.num_heads = 2, .layers = {0}}));
  ASSERT_EQ(ErrorOf(good), "");
  EXPECT_THAT(ErrorOf(""), HasSubstr("not a header of `so4cal export --to c`"));
  EXPECT_THAT(ErrorOf("#include <x.h>\n"), HasSubstr("not a header of `so4cal export --to c`"));
  EXPECT_THAT(ErrorOf(good + " "), HasSubstr("spacing differs"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 1)), HasSubstr("spacing differs"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() / 2)), HasSubstr("not a header"));
  EXPECT_THAT(ErrorOf(Replaced(good, "#include <stddef.h>", "#include <stdint.h>")),
              HasSubstr("not a header"));
  EXPECT_THAT(ErrorOf(Replaced(good, " = {\n", " = {\n256,")), HasSubstr("expected a number from 0 to 255"));
  EXPECT_THAT(ErrorOf(Replaced(good, " = {\n", " = {\n1,")), HasSubstr("expected '"));
  EXPECT_THAT(ErrorOf(Replaced(good, "{0, 'k', 0,", "{0, 'k', 1,")), HasSubstr("the index after the arrays"));
  EXPECT_THAT(ErrorOf(Replaced(good, "so4cal_layer0_k_head0", "so4cal_layer0_x_head0")),
              HasSubstr("spacing differs"));
}

// The bytes themselves are held to the head table's own rules; the error says which array.
TEST(CHeader, RefusesDamagedBytes) {
  const std::string good = Written(SampleTable({.num_heads = 1, .layers = {0}}));
  const std::size_t first = good.find(" = {\n") + 5;
  const std::size_t comma = good.find(',', first);
  const std::string bad = good.substr(0, first) + "0" + good.substr(comma);
  EXPECT_THAT(ErrorOf(bad), HasSubstr("so4cal_layer0_k_head0: "));
}

}  // namespace
}  // namespace so4cal
