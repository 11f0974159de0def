// SPDX-License-Identifier: Apache-2.0
#include "lib/head_table.h"

#include <gmock/gmock.h>

#include <limits>

#include "lib/error.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(HeadTable, CheckNamesWhatIsWrong) {
  const auto refused = [](auto change, const char* reason) {
    HeadTable table;
    table.transform = RandomTransform(16, 120);
    table.rounding = Rounding::kFeedback;
    table.metric.assign(256, 0.0f);
    for (std::size_t i = 0; i < 16; ++i) table.metric[17 * i] = 1;
    ASSERT_NO_THROW(table.Check());
    change(table);
    EXPECT_THAT([&] { table.Check(); }, ThrowsMessage<Error>(HasSubstr(reason)));
  };
  refused([](HeadTable& t) { t.transform.signs[0] = 3; }, "sign of channel 0");
  refused([](HeadTable& t) { t.chosen = static_cast<Chosen>(9); }, "no name for value 9");
  refused([](HeadTable& t) { t.rounding = static_cast<Rounding>(9); }, "no name for value 9");
  refused([](HeadTable& t) { t.chosen = Chosen::kDense; }, "no dense rotation");
  refused([](HeadTable& t) { t.rounds = 1; }, "rounds is 1");
  refused([](HeadTable& t) { t.rounds = -1; }, "rounds is -1");
  refused([](HeadTable& t) { t.damping = -0.5f; }, "damping is -0.5");
  refused([](HeadTable& t) { t.damping = std::numeric_limits<float>::quiet_NaN(); }, "damping");
  refused([](HeadTable& t) { t.metric.clear(); }, "metric has 0 values");
  refused([](HeadTable& t) { t.metric[5] = 1; }, "not symmetric");
  refused([](HeadTable& t) { t.metric[5] = std::numeric_limits<float>::infinity(); }, "not symmetric");
  refused([](HeadTable& t) { t.metric[0] = std::numeric_limits<float>::quiet_NaN(); }, "trace");
  refused([](HeadTable& t) { t.rounding = Rounding::kNearest; }, "no use for a metric");
}

TEST(HeadTable, EffectiveOfIdentityKeepsOnlyTheOffset) {
  HeadTable table;
  table.transform = RandomTransform(16, 121);
  EXPECT_EQ(table.Effective(), table.transform);
  table.chosen = Chosen::kIdentity;
  const HeadTransform identity = table.Effective();
  EXPECT_EQ(identity.offset, table.transform.offset);
  EXPECT_EQ(identity.head_dim, 16);
  EXPECT_FALSE(identity.hadamard);
  EXPECT_TRUE(identity.signs.empty() && identity.stages.empty() && identity.dense.empty());
}

}  // namespace
}  // namespace so4cal
