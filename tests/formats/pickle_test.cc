// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;
using Kind = PickleValue::Kind;
using namespace std::string_literals;

std::string ErrorOf(std::string_view bytes) {
  try {
    Pickle(bytes, "p");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Pickle, WritesWhatPythonReads) {
  PickleWriter writer;
  writer.BeginDict();
  writer.Text("n");
  writer.Integer(300);
  writer.Text("yes");
  writer.Bool(true);
  writer.EndDict();
  // pickletools.dis of this: PROTO 2, EMPTY_DICT, MARK, BINUNICODE 'n', BININT2 300, BINUNICODE 'yes',
  // NEWTRUE, SETITEMS
  EXPECT_EQ(std::move(writer).Finish(), "\x80\x02}(X\1\0\0\0nM\x2c\1X\3\0\0\0yes\x88u."s);
}

TEST(Pickle, ReadsNumbersOfEveryOpcode) {
  // [5, 300, 70000, -1, 2**40, 0.5, None, False], as pickle.dumps(..., 2) writes it, memo included
  const std::string bytes =
      "\x80\x02]q\0(K\5M\x2c\1Jp\x11\1\0J\xff\xff\xff\xff\x8a\6\0\0\0\0\0\1G?\xe0\0\0\0\0\0\0N\x89"
      "e."s;
  const Pickle pickle(bytes, "p");
  const auto& items = pickle.root().items;
  ASSERT_EQ(items.size(), 8U);
  const std::int64_t expected[] = {5, 300, 70000, -1, std::int64_t{1} << 40};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(items[i]->integer, expected[i]);
  EXPECT_EQ(items[5]->number, 0.5);
  EXPECT_EQ(items[6]->kind, Kind::kNone);
  EXPECT_EQ(items[7]->kind, Kind::kBool);
}

TEST(Pickle, IntegersComeBack) {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{256}, std::uint64_t{65535}, std::uint64_t{65536},
        std::uint64_t{1} << 31, std::uint64_t{1} << 62}) {
    PickleWriter writer;
    writer.Integer(value);
    EXPECT_EQ(Pickle(std::move(writer).Finish(), "p").root().integer, static_cast<std::int64_t>(value));
  }
}

TEST(Pickle, CallsAreRefusedByName) {
  EXPECT_THAT(ErrorOf("\x80\x02"
                      "cos\nsystem\n(X\2\0\0\0ls\x85R."s),
              HasSubstr("names 'os.system'"));
  EXPECT_THAT(ErrorOf("\x80\x02"
                      "cbuiltins\neval\n."s),
              HasSubstr("names 'builtins.eval'"));
  EXPECT_THAT(ErrorOf("\x80\x04\x8c\2os\x8c\6system\x93."s), HasSubstr("opcode"));  // protocol 4's way
  EXPECT_THAT(ErrorOf("\x80\x02"
                      "ccollections\nOrderedDict\n)\x81."s),
              HasSubstr("opcode"));
}

TEST(Pickle, BrokenProgramsAreRefused) {
  for (const std::string& bytes : {""s, "\x80"s, "K"s, "."s, "("s, "(."s, "u."s, "}K\1s."s, "}(K\1u."s,
                                   "h\1."s, "q\1."s, "R."s, "K\1)R."s,
                                   "X\xff\xff\xff\x7f"
                                   "a."s,
                                   "\x8a\x09\0\0\0\0\0\0\0\0\0."s, "K\1a."s, "Q."s, "cno newline"s, "\x87."s})
    EXPECT_NE(ErrorOf(bytes), "") << bytes;
}

// A list that holds itself, and one value under many names: neither grows nor leaks.
TEST(Pickle, SharedAndCircularValuesAreHarmless) {
  const Pickle circle("]q\0h\0a."s, "p");
  EXPECT_EQ(circle.root().items[0], &circle.root());
  std::string laughs = "]q\0"s;
  for (int i = 0; i < 60; ++i) laughs += "](h\0h\0h\0h\0eq\0"s;  // 4^60 items if it were copied
  EXPECT_EQ(Pickle(laughs + ".", "p").root().items.size(), 4U);
}

TEST(Pickle, TheLastOfEqualKeysCounts) {
  const Pickle pickle("}(X\1\0\0\0aK\1X\1\0\0\0aK\2u."s, "p");
  EXPECT_EQ(pickle.root().Find("a")->integer, 2);
  EXPECT_EQ(pickle.root().Find("b"), nullptr);
}

}  // namespace
}  // namespace so4cal
