// SPDX-License-Identifier: Apache-2.0
#include "formats/protobuf.h"

#include <gtest/gtest.h>

#include "lib/error.h"

namespace so4cal {
namespace {

using namespace std::string_literals;

TEST(Protobuf, BytesOfTheGuide) {  // protobuf.dev, "Encoding": field 1 = 150; field 2 = "testing"
  std::string message;
  AppendProtoNumber(message, 1, 150);
  AppendProtoBytes(message, 2, "testing");
  EXPECT_EQ(message, "\x08\x96\x01\x12\x07testing");
}

TEST(Protobuf, FieldsComeBackInOrder) {
  std::string message;
  AppendProtoNumber(message, 14, ~std::uint64_t{0});
  message +=
      "\x09" + std::string(8, 'x') + "\x0d" + std::string(4, 'x');  // fields of 8 and 4 bytes, passed over
  AppendProtoBytes(message, 300, "");
  std::string_view rest = message;
  EXPECT_EQ(NextProtoField(rest, "m")->number, ~std::uint64_t{0});
  EXPECT_EQ(NextProtoField(rest, "m")->field, 1);
  EXPECT_EQ(NextProtoField(rest, "m")->field, 1);
  EXPECT_EQ(NextProtoField(rest, "m")->field, 300);
  EXPECT_FALSE(NextProtoField(rest, "m"));
}

TEST(Protobuf, DamageIsRefused) {
  for (const std::string& message :
       {"\x08"s, "\x08\x80"s, "\x12\x05"s + "four", "\x0f"s, "\x0c"s, "\x09short"s,
        "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s, std::string(11, '\xff')}) {
    std::string_view rest = message;
    EXPECT_THROW(NextProtoField(rest, "m"), Error);
  }
}

}  // namespace
}  // namespace so4cal
