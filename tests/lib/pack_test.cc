// SPDX-License-Identifier: Apache-2.0
#include "lib/pack.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/reference/pack_row.h"
#include "tests/reference/quantizer.h"

namespace so4cal {
namespace {

using reference::PackRow;
using testing::ElementsAre;

CodecSpec Spec(int head_dim, int bits, int block) {
  CodecSpec spec;
  spec.head_dim = head_dim;
  spec.bits = bits;
  spec.block = block;
  return spec;
}

// By hand, lib/CODEC.md, "Worked example".
TEST(Pack, WorkedExample) {
  const std::vector<std::uint8_t> codes = {6, 0, 5, 1, 4, 2, 3, 4};
  const std::vector<std::uint16_t> scales = {0x3c00};
  std::vector<std::uint8_t> row(5);
  PackRow(Spec(8, 3, 8), scales, codes, row);
  EXPECT_THAT(row, ElementsAre(0x00, 0x3c, 0x52, 0x38, 0x95));
}

TEST(Pack, FourBitsByHand) {
  const std::vector<std::uint8_t> codes = {15, 0, 8, 1, 4, 2, 3, 12};
  const std::vector<std::uint16_t> scales = {0x1234, 0xabcd};
  std::vector<std::uint8_t> row(8);
  PackRow(Spec(8, 4, 4), scales, codes, row);
  // low: 3 0 0 1 | 0 2 3 0; high: 3 0 2 0 | 1 0 0 3
  EXPECT_THAT(row, ElementsAre(0x34, 0x12, 0xcd, 0xab, 0x43, 0x38, 0x23, 0xc1));
}

TEST(Pack, RowBytes) {
  EXPECT_EQ(Spec(128, 3, 32).row_bytes(), 56u);
  EXPECT_EQ(Spec(128, 3, 32).bits_per_value(), 3.5);
  EXPECT_EQ(Spec(128, 3, 64).bits_per_value(), 3.25);
  EXPECT_EQ(Spec(128, 3, 128).bits_per_value(), 3.125);
  EXPECT_EQ(Spec(128, 2, 32).bits_per_value(), 2.5);
  EXPECT_EQ(Spec(128, 4, 32).bits_per_value(), 4.5);
}

TEST(Pack, RoundTripsAndAgreesWithTheBitByBitReader) {
  std::mt19937 rng(9);
  for (const int head_dim : {8, 80, 128, 1024})
    for (const int bits : {2, 3, 4})
      for (const int block : {1, 8, head_dim}) {
        const CodecSpec spec = Spec(head_dim, bits, block);
        std::vector<std::uint8_t> codes, row(spec.row_bytes(), 0xff);
        std::vector<std::uint16_t> scales;
        for (int i = 0; i < head_dim; ++i) codes.push_back(static_cast<std::uint8_t>(rng() >> (32 - bits)));
        for (int b = 0; b < spec.num_blocks(); ++b) scales.push_back(static_cast<std::uint16_t>(rng()));
        PackRow(spec, scales, codes, row);
        std::vector<std::uint8_t> codes_back(codes.size(), 0xff);
        std::vector<std::uint16_t> scales_back(scales.size());
        UnpackCodes(spec, row, codes_back);
        UnpackScales(row, scales_back);
        ASSERT_EQ(codes_back, codes);
        ASSERT_EQ(scales_back, scales);
        for (int i = 0; i < head_dim; ++i)
          ASSERT_EQ(reference::CodeOf(spec, row, i), codes[static_cast<std::size_t>(i)]);
      }
}

}  // namespace
}  // namespace so4cal
