// SPDX-License-Identifier: Apache-2.0
#include "formats/element_types.h"

#include <gtest/gtest.h>

#include <string>

namespace so4cal {
namespace {

using namespace std::string_literals;

TEST(ElementTypes, MinusOneAndAHalfInEveryType) {
  const std::pair<std::string_view, std::string> kPatterns[] = {
      {"F64", "\0\0\0\0\0\0\xf8\xbf"s}, {"F32", "\0\0\xc0\xbf"s}, {"F16", "\0\xbe"s}, {"BF16", "\xc0\xbf"s}};
  for (const auto& [name, bytes] : kPatterns) {
    const auto type = ElementTypeOf(name);
    ASSERT_TRUE(type.has_value()) << name;
    EXPECT_EQ(ElementBytes(*type), bytes.size()) << name;
    EXPECT_EQ(LoadElement(*type, bytes.data()), -1.5) << name;
  }
  EXPECT_FALSE(ElementTypeOf("I32").has_value());
}

}  // namespace
}  // namespace so4cal
