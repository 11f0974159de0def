// SPDX-License-Identifier: Apache-2.0
#include "formats/content_hash.h"

#include <gtest/gtest.h>

#include <vector>

namespace so4cal {
namespace {

// Value of the empty input in xxHash's own documentation of XXH3 128 bits, seed 0.
TEST(ContentHashTest, EmptyInput) { EXPECT_EQ(ContentHash({}), "99aa06d3014798d86001c324468d497f"); }

TEST(ContentHashTest, PiecesHashAsTheWhole) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  ContentHasher hasher;
  hasher.Update(std::span(bytes).first(333));
  hasher.Update({});
  EXPECT_NE(hasher.Hex(), ContentHash(bytes));
  hasher.Update(std::span(bytes).subspan(333));
  EXPECT_EQ(hasher.Hex(), ContentHash(bytes));
}

SideTable TwoHeads() {
  SideTable side;
  side.codec.head_dim = 32;
  side.heads.resize(2);
  for (HeadTable& head : side.heads) head.transform = {.head_dim = 32, .hadamard = true};
  side.outcomes.resize(2);
  return side;
}

// Everything that changes rows changes the hash; how the fit went does not.
TEST(ContentHashTest, SideTableHashSeesCodecAndMap) {
  const SideTable side = TwoHeads();
  const std::string hash = SideTableHash(side);
  SideTable other = side;
  other.outcomes[0].iterations = 7;
  EXPECT_EQ(SideTableHash(other), hash);
  other = side;
  other.codec.bits = 4;
  EXPECT_NE(SideTableHash(other), hash);
  other = side;
  other.heads[1].transform.offset.assign(32, 0.5F);
  EXPECT_NE(SideTableHash(other), hash);
  other = side;
  other.heads[1].chosen = Chosen::kIdentity;
  EXPECT_NE(SideTableHash(other), hash);
}

}  // namespace
}  // namespace so4cal
