// SPDX-License-Identifier: Apache-2.0
#include "formats/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "lib/error.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;

TEST(JsonNumber, ByHand) {
  EXPECT_EQ(JsonNumber(0.1), "0.1");
  EXPECT_EQ(JsonNumber(0.1F), "0.1");
  EXPECT_EQ(JsonNumber(static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(JsonNumber(0.0), "0");
  EXPECT_EQ(JsonNumber(-0.0), "-0.0");
  EXPECT_EQ(JsonNumber(std::nan("")), "null");
  EXPECT_EQ(JsonNumber(std::uint8_t{255}), "255");
  EXPECT_EQ(JsonNumber(std::int8_t{-1}), "-1");
  EXPECT_EQ(JsonNumber(~std::uint64_t{0}), "18446744073709551615");
}

// Any bit pattern of a finite float or double survives text and parser exactly. Seed 7.
TEST(JsonNumber, RoundTripsEveryBitPattern) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const auto f = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const auto d = std::bit_cast<double>(random());
    if (std::isfinite(f)) {
      const auto read = static_cast<float>(ParseJson("[" + JsonNumber(f) + "]", "x")[0].get<double>());
      ASSERT_EQ(std::bit_cast<std::uint32_t>(read), std::bit_cast<std::uint32_t>(f)) << JsonNumber(f);
    }
    if (std::isfinite(d)) {
      const auto read = ParseJson("[" + JsonNumber(d) + "]", "x")[0].get<double>();
      ASSERT_EQ(std::bit_cast<std::uint64_t>(read), std::bit_cast<std::uint64_t>(d)) << JsonNumber(d);
    }
  }
}

std::string ParseError(const std::string& text) {
  try {
    ParseJson(text, "file");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ParseJson, RefusesWhatIsAmbiguousOrHostile) {
  EXPECT_THAT(ParseError(R"({"a": 1, "b": {"a": 1}, "a": 2})"),
              HasSubstr("file: JSON has the name 'a' twice"));
  EXPECT_EQ(ParseError(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})"), "");
  EXPECT_THAT(ParseError(std::string(1'000'000, '[')), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(ParseError("{\"a\": NaN}"), HasSubstr("file: not valid JSON: parse error at line 1"));
  EXPECT_THAT(ParseError("[1e999]"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ParseError("[1] x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ParseError(""), HasSubstr("not valid JSON"));
}

TEST(JsonString, EscapesAndRefusesBrokenUtf8) {
  EXPECT_EQ(JsonString("a\"b\n\xC3\xA9", "x"), "\"a\\\"b\\n\xC3\xA9\"");
  EXPECT_THROW(JsonString("\xFF", "x"), Error);
}

}  // namespace
}  // namespace so4cal
