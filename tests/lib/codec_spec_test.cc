// SPDX-License-Identifier: Apache-2.0
#include "lib/codec_spec.h"

#include <gmock/gmock.h>

#include "lib/error.h"

namespace so4cal {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(CodecSpec, CheckNamesTheFieldItsValueAndWhatIsAllowed) {
  const auto refused = [](auto change, const char* reason) {
    CodecSpec spec;
    spec.head_dim = 128;
    ASSERT_NO_THROW(spec.Check());
    change(spec);
    EXPECT_THAT([&] { spec.Check(); }, ThrowsMessage<Error>(HasSubstr(reason)));
  };
  for (const int head_dim : {-8, 0, 4, 12, 1032})
    refused([&](CodecSpec& s) { s.head_dim = head_dim; }, "expected a multiple of 8 from 8 to 1024");
  for (const int bits : {-1, 1, 5}) refused([&](CodecSpec& s) { s.bits = bits; }, "expected 2, 3 or 4");
  for (const int block : {-32, 0, 48, 256})
    refused([&](CodecSpec& s) { s.block = block; }, "expected a divisor of head_dim (128)");
  refused([](CodecSpec& s) { s.grid = static_cast<GridKind>(7); }, "expected one of symmetric, full, lloyd");
  refused([](CodecSpec& s) { s.scale = static_cast<ScaleRule>(7); }, "expected one of absmax, mse");
}

}  // namespace
}  // namespace so4cal
