// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "formats/byte_writer.h"
#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;

std::string WithHeader(const std::string& header, const std::string& data = "") {
  std::string bytes;
  AppendLittleEndian(bytes, static_cast<std::uint64_t>(header.size()));
  return bytes + header + data;
}

// The layout by hand: widest dtype first, then by name; spaces up to 8 bytes.
TEST(Safetensors, BytesByHand) {
  const SafetensorsFile file{
      {{"b", "2"}, {"a", "1"}},
      {{"z", "U8", {3}, "xyz"}, {"y", "I8", {1}, "s"}, {"m", "F32", {1, 1}, "ffff"}, {"c", "F32", {0}, ""}}};
  const std::string header = R"({"__metadata__":{"a":"1","b":"2"},)"
                             R"("c":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                             R"("m":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
                             R"("y":{"dtype":"I8","shape":[1],"data_offsets":[4,5]},)"
                             R"("z":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(SerializeSafetensors(file, "f"), WithHeader(header + padding, "ffffsxyz"));
}

TEST(Safetensors, RoundTrip) {
  const SafetensorsFile file{{{"k", "v \"\n"}},
                             {{"a", "F64", {2}, std::string(16, '\7')}, {"b", "U8", {2, 1}, "xy"}}};
  const SafetensorsFile read = ParseSafetensors(SerializeSafetensors(file, "f"), "f");
  EXPECT_EQ(read.metadata, file.metadata);
  ASSERT_EQ(read.tensors.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.tensors[i].name, file.tensors[i].name);
    EXPECT_EQ(read.tensors[i].dtype, file.tensors[i].dtype);
    EXPECT_EQ(read.tensors[i].shape, file.tensors[i].shape);
    EXPECT_EQ(read.tensors[i].bytes, file.tensors[i].bytes);
  }
}

std::string ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// That of the parser; the reader of headers refuses the same files for the same reasons.
std::string ParseError(const std::string& bytes) {
  const testing::TempFolder folder;
  const std::filesystem::path path = folder / "a";
  WriteBytesAtomically(path, bytes);
  const std::string error = ErrorOf([&] { ParseSafetensors(bytes, path.string()); });
  EXPECT_EQ(ErrorOf([&] { ReadSafetensorsHeader(path); }), error);
  return error;
}

TEST(Safetensors, HeadersSayWhereTheDataIs) {
  const testing::TempFolder folder;
  const std::string bytes =
      SerializeSafetensors({{{"k", "v"}}, {{"a", "F32", {1}, "wxyz"}, {"b", "U8", {2, 1}, "pq"}}}, "f");
  WriteBytesAtomically(folder / "a", bytes);
  const SafetensorsHeader header = ReadSafetensorsHeader(folder / "a");
  EXPECT_EQ(header.metadata.at("k"), "v");
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(bytes.substr(header.data_begin + header.tensors[0].begin, 4), "wxyz");
  EXPECT_EQ(bytes.substr(header.data_begin + header.tensors[1].begin), "pq");
}

std::string Tensor(const std::string& fields) { return "{\"t\":{" + fields + "}}"; }

TEST(Safetensors, AbsurdHeaderLengths) {
  EXPECT_THAT(ParseError(""), HasSubstr("shorter than 8 bytes"));
  EXPECT_THAT(ParseError("1234567"), HasSubstr("shorter than 8 bytes"));
  for (const std::uint64_t length :
       {std::uint64_t{1} << 60, ~std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{100'000'001}}) {
    std::string bytes;
    AppendLittleEndian(bytes, length);
    EXPECT_THAT(ParseError(bytes + "{}"), HasSubstr("claims a header of " + std::to_string(length)));
  }
  EXPECT_THAT(ParseError(WithHeader("")), HasSubstr("starts with no '{'"));
  EXPECT_THAT(ParseError(WithHeader(" {}")), HasSubstr("starts with no '{'"));
  EXPECT_EQ(ParseError(WithHeader("{}  ")), "");
}

TEST(Safetensors, BadHeaders) {
  const std::pair<std::string, const char*> cases[] = {
      {"{", "not valid JSON"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       "'a' twice"},
      {R"({"__metadata__":{"x":1}})", "'x' is no string"},
      {R"({"__metadata__":[]})", "__metadata__ is no object"},
      {R"({"t":1})", "expected exactly dtype"},
      {Tensor(R"("dtype":"U8","shape":[0])"), "expected exactly dtype"},
      {Tensor(R"("dtype":"U8","shape":[0],"data_offsets":[0,0],"more":1)"), "expected exactly dtype"},
      {Tensor(R"("dtype":"U9","shape":[0],"data_offsets":[0,0])"), "unknown dtype \"U9\""},
      {Tensor(R"("dtype":8,"shape":[0],"data_offsets":[0,0])"), "unknown dtype 8"},
      {Tensor(R"("dtype":"U8","shape":0,"data_offsets":[0,0])"), "expected lists"},
      {Tensor(R"("dtype":"U8","shape":[0],"data_offsets":[0,0,0])"), "expected lists"},
      {Tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,0])"), "found -1"},
      {Tensor(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,0])"), "found 1.5"},
      {Tensor(R"("dtype":"U8","shape":["1"],"data_offsets":[0,0])"), "found \"1\""},
      {Tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), "do not hold the 1 bytes"},
      {Tensor(R"("dtype":"U8","shape":[2],"data_offsets":[0,1])"), "do not hold the 2 bytes"},
      {Tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"),
       "too large for any file"},
      {Tensor(R"("dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,0])"),
       "too large for any file"},
      {Tensor(R"("dtype":"U8","shape":[1152921504606846976],"data_offsets":[0,1152921504606846976])"),
       "truncated"},
  };
  for (const auto& [header, expected] : cases)
    EXPECT_THAT(ParseError(WithHeader(header)), HasSubstr(expected)) << header;
}

TEST(Safetensors, HolesOverlapsAndLengths) {
  const auto two = [](int a0, int a1, int b0, int b1) {
    const auto entry = [](int begin, int end) {
      return R"({"dtype":"U8","shape":[)" + std::to_string(end - begin) + R"(],"data_offsets":[)" +
             std::to_string(begin) + "," + std::to_string(end) + "]}";
    };
    return WithHeader("{\"a\":" + entry(a0, a1) + ",\"b\":" + entry(b0, b1) + "}", "1234");
  };
  EXPECT_EQ(ParseError(two(0, 2, 2, 4)), "");
  EXPECT_EQ(ParseError(two(2, 4, 0, 2)), "");  // any order in the header
  EXPECT_EQ(ParseError(two(0, 4, 0, 0)), "");  // empty tensors take no room
  EXPECT_THAT(ParseError(two(0, 2, 1, 4)), HasSubstr("tensors overlap or leave a hole"));
  EXPECT_THAT(ParseError(two(0, 1, 2, 4)), HasSubstr("tensors overlap or leave a hole"));
  EXPECT_THAT(ParseError(two(1, 2, 2, 4)), HasSubstr("starts at byte 1 of the data, expected 0"));
  EXPECT_THAT(ParseError(two(0, 4, 0, 4)), HasSubstr("tensors overlap or leave a hole"));
  EXPECT_THAT(ParseError(two(0, 1, 1, 3)), HasSubstr("holds 4 bytes of data, expected 3"));
  EXPECT_THAT(ParseError(two(0, 2, 2, 5)), HasSubstr("holds 4 bytes of data, expected 5"));
}

}  // namespace
}  // namespace so4cal
