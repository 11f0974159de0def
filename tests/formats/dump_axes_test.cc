// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParseAxes, BackAndForth) {
  for (const char* text : {"token,head,channel", "head,token,channel", "batch,head,token,channel",
                           "token,batch,head,channel", "layer,batch,token,head,channel"})
    EXPECT_EQ(AxesText(ParseAxes(text, "")), text);
  EXPECT_EQ(AxesText(ParseAxes("token, head, channel", "")), "token,head,channel");
}

TEST(ParseAxes, Refused) {
  for (const char* text :
       {"", ",", "token", "token,head", "head,channel", "token,channel,head", "token,token,channel",
        "token,head,head,channel", "token,layer,head,channel", "seq,head,channel", "token,head,channel,"})
    EXPECT_THROW(ParseAxes(text, "a.h5"), Error) << text;
}

TEST(ShapeOf, TokensOfBatchItems) {
  const RowShape shape = ShapeOf(ParseAxes("batch,head,token,channel", ""), {3, 2, 100, 8});
  EXPECT_EQ(shape.batches, 3u);
  EXPECT_EQ(shape.tokens(), 300u);
  EXPECT_EQ(shape.heads, 2u);
  EXPECT_EQ(shape.channels, 8u);
}

TEST(CheckAxes, AgainstExtents) {
  EXPECT_NO_THROW(CheckAxes("token,head,channel", "--axes", {4, 5, 6}, false, "a"));
  EXPECT_THROW(CheckAxes("token,head,channel", "--axes", {4, 5, 6, 7}, false, "a"), Error);
  EXPECT_THROW(CheckAxes("layer,token,head,channel", "--axes", {4, 5, 6, 7}, false, "a"), Error);
  EXPECT_THROW(CheckAxes("batch,token,head,channel", "--axes", {4, 5, 6, 7}, true, "a"), Error);
}

// By hand: a reading fits from 256 tokens on, and exactly one must fit.
TEST(DeduceAxes, TheOneReadingThatFits) {
  const auto deduced = [](const std::vector<hsize_t>& extents, bool stacked) {
    return AxesText(DeduceAxes(extents, stacked, "a"));
  };
  EXPECT_EQ(deduced({256, 255, 64}, false), "token,head,channel");
  EXPECT_EQ(deduced({8, 1024, 64}, false), "head,token,channel");
  EXPECT_EQ(deduced({4, 512, 8, 64}, false), "batch,token,head,channel");
  EXPECT_EQ(deduced({4, 8, 512, 64}, false), "batch,head,token,channel");
  EXPECT_EQ(deduced({30, 3, 1024, 64}, true), "layer,head,token,channel");
  EXPECT_EQ(deduced({30, 2, 512, 8, 64}, true), "layer,batch,token,head,channel");
}

TEST(DeduceAxes, NoneOrTwoAreListed) {
  const auto error = [](const std::vector<hsize_t>& extents, bool stacked) -> std::string {
    try {
      DeduceAxes(extents, stacked, "a.h5: /k");
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error({300, 256, 64}, false),
              AllOf(HasSubstr("a.h5: /k"),
                    HasSubstr("token,head,channel (300 tokens, 256 heads) or head,token,channel "
                              "(256 tokens, 300 heads)"),
                    HasSubstr("--axes"), HasSubstr("attribute `axes`")));
  EXPECT_THAT(error({255, 8, 64}, false), HasSubstr("(255 tokens, 8 heads)"));
  EXPECT_THAT(error({16, 32, 512, 64}, false), HasSubstr("batch,token,head,channel (512 tokens, 512 heads)"));
  EXPECT_THAT(error({1024, 64}, false), HasSubstr("[1024, 64]"));
  EXPECT_THAT(error({1024, 8, 64}, true), HasSubstr("[1024, 8, 64]"));
}

}  // namespace
}  // namespace so4cal
