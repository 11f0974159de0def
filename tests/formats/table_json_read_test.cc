// SPDX-License-Identifier: Apache-2.0
// A damaged JSON table is refused, whatever is damaged: every member and number is removed or replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/atomic_file.h"
#include "formats/table_io.h"
#include "formats/table_json.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Pointer = Json::json_pointer;
using testing::SampleTable;

std::string ErrorOf(const std::string& text) {
  try {
    TableFromJson(text, "bad.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Json GoodTable() {
  return Json::parse(TableToJson(SampleTable({.head_dim = 8,
                                              .value_dim = 8,
                                              .num_heads = 2,
                                              .layers = {0},
                                              .block = 8,
                                              .rounding = Rounding::kFeedback,
                                              .signs = true}),
                                 "good.json"));
}

// Of every member, and of the first and last element of every array; outer ones before inner ones.
void CollectPointers(const Json& value, const Pointer here, std::vector<Pointer>& out) {
  if (value.is_object())
    for (const auto& item : value.items()) {
      out.push_back(here / item.key());
      CollectPointers(item.value(), out.back(), out);
    }
  if (value.is_array())
    for (const std::size_t i : std::set<std::size_t>{0, value.size() - 1}) {
      if (value.empty()) break;
      out.push_back(here / i);
      CollectPointers(value[i], out.back(), out);
    }
}

std::vector<Pointer> AllPointers(const Json& table) {
  std::vector<Pointer> pointers;
  CollectPointers(table, Pointer(), pointers);
  return pointers;
}

TEST(TableJsonRead, GoodTableIsAccepted) { EXPECT_EQ(ErrorOf(GoodTable().dump()), ""); }

TEST(TableJsonRead, EveryMissingMemberAndElementIsRefused) {
  const Json good = GoodTable();
  for (const Pointer& pointer : AllPointers(good)) {
    const std::string path = pointer.to_string();
    if (path.find("/hashes/") != std::string::npos) continue;  // a dump need not have every dataset
    if (path == "/dumps/1/fit/0" || path == "/dumps/1/fit/1" || path == "/dumps/0/fit/0" ||
        path.find("/validation/0") == path.size() - 13 || path.find("/test/0") == path.size() - 7)
      continue;                                       // one range less is a valid split
    if (path.starts_with("/dump_layers/")) continue;  // a table without a dump has none
    Json bad = good;
    Json& parent = bad.at(pointer.parent_pointer());
    if (parent.is_object())
      parent.erase(pointer.back());
    else
      parent.erase(static_cast<std::size_t>(std::stoi(pointer.back())));
    EXPECT_THAT(ErrorOf(bad.dump()), HasSubstr("'bad.json': ")) << path;
  }
}

TEST(TableJsonRead, EveryWrongTypeIsRefused) {
  const Json good = GoodTable();
  for (const Pointer& pointer : AllPointers(good))
    for (const Json& other :
         {Json(true), Json(Json::object({{"x", 1}})), good.at(pointer).is_string() ? Json(1) : Json("x")}) {
      Json bad = good;
      bad[pointer] = other;
      EXPECT_THAT(ErrorOf(bad.dump()), HasSubstr("'bad.json': ")) << pointer.to_string() << " = " << other;
    }
}

// null stands for NaN, which only the error figures may be.
TEST(TableJsonRead, NullIsRefusedButForErrorsNotMeasured) {
  const Json good = GoodTable();
  for (const Pointer& pointer : AllPointers(good)) {
    Json bad = good;
    bad[pointer] = nullptr;
    const bool may_be_nan =
        pointer.to_string().find("/errors/rows/") != std::string::npos && good.at(pointer).is_number();
    EXPECT_EQ(ErrorOf(bad.dump()).empty(), may_be_nan) << pointer.to_string();
  }
}

struct BrokenRule {
  const char* name;
  const char* pointer;
  Json value;
  const char* expected;
};
void PrintTo(const BrokenRule& rule, std::ostream* out) { *out << rule.name; }

const BrokenRule kBrokenRules[] = {
    {"NewerVersion", "/format_version", 2, "/format_version: is 2: written by a newer so4cal"},
    {"Negative", "/seed", -1, "/seed: is -1, which is out of range"},
    {"Fraction", "/layers/0/k/bits", 2.5, "/layers/0/k/bits: expected an integer, found 2.5"},
    {"TooLargeForU8", "/layers/0/k/rounds/1", 256, "/layers/0/k/rounds: is 256, which is out of range"},
    {"TooSmallForI8", "/layers/0/k/signs/0/0", -129, "/layers/0/k/signs: is -129"},
    {"TooLargeForFloat", "/layers/0/k/offset/0/0", 1e300, "/layers/0/k/offset: value 0"},
    {"UnitNorm", "/layers/0/k/quaternions/0/0/0/0", {1.5, 0, 0, 0}, "/layers/0/k/head 0: stage 0, block 0"},
    {"ChosenName", "/layers/0/k/chosen/0", "best", "/layers/0/k/chosen: head 0 is \"best\""},
    {"Grid", "/layers/0/k/grid", "cubic",
     "/layers/0/k/grid is 'cubic', expected one of symmetric, full, lloyd"},
    {"Columns", "/layers/0/k/errors/columns", "a, b", "/layers/0/k/errors: expected the columns"},
    {"Columns2", "/layers/0/k/errors", Json::array(), "/layers/0/k/errors: expected an object with"},
    {"RaggedRows", "/layers/0/k/offset/1", {1, 2, 3}, "/layers/0/k/offset: expected rows of equal length 8"},
    {"ScalarForRow", "/layers/0/k/offset/1", 1, "/layers/0/k/offset: expected rows of equal length 8"},
    {"UnknownField", "/layers/0/k/bias", 1, "/layers/0/k/bias: not a field"},
    {"LayerName", "/layers/x", Json::object(), "/layers/x: expected a layer number"},
    {"LayerNameWithZero", "/layers/00", Json::object(), "/layers/00: expected a layer number"},
    {"LayerTwice", "/layers/1", Json::object(), "/layers/1/k: missing"},
    {"DumpGap", "/dumps/3", Json::object(), "/dumps/2: missing"},
    {"RangeBeyondTokens", "/dumps/0/test/0/1", 1001, "/dumps/0/test: range 0 is [850, 1001)"},
};
class BrokenJsonRules : public ::testing::TestWithParam<BrokenRule> {};
INSTANTIATE_TEST_SUITE_P(Json, BrokenJsonRules, ::testing::ValuesIn(kBrokenRules),
                         [](const auto& info) { return info.param.name; });

TEST_P(BrokenJsonRules, IsRefused) {
  Json bad = GoodTable();
  bad[Pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_THAT(ErrorOf(bad.dump()), AllOf(HasSubstr("'bad.json': "), HasSubstr(GetParam().expected)));
}

TEST(TableJsonRead, BadTexts) {
  EXPECT_THAT(ErrorOf("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("expected a JSON object, found array"));
  EXPECT_THAT(ErrorOf("{\"format\": \"so4cal-table\", \"format\": \"so4cal-table\"}"),
              HasSubstr("'format' twice"));
}

// The text is for people: names for codes, one offset row per line, numbers without needless digits.
TEST(TableJsonWrite, IsReadable) {
  RotationTable table = SampleTable({.num_heads = 2, .layers = {0}});
  table.layers[0].sides[0].heads[0].transform.offset.assign(16, 0.1F);
  const std::string text = TableToJson(table, "t.json");
  EXPECT_THAT(text, HasSubstr("\"chosen\": [\"fitted\", \"identity\"]"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "\n     [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],\n"));
  EXPECT_THAT(text, HasSubstr("\"strides\": [1, 4]"));
}

}  // namespace
}  // namespace so4cal
