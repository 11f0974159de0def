// SPDX-License-Identifier: Apache-2.0
#include "lib/convert.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "lib/half.h"
#include "tests/support/each_target.h"

namespace so4cal {
namespace {

// The definition: sign, exponent of bias 15 (subnormal at 0), mantissa of 10 bits.
double ValueOfHalf(std::uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

std::vector<std::uint32_t> Bits(const std::vector<float>& x) {
  std::vector<std::uint32_t> bits;
  for (const float v : x) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

std::vector<std::uint16_t> AllPatterns() {
  std::vector<std::uint16_t> all;
  for (unsigned h = 0; h < 65536; ++h) all.push_back(static_cast<std::uint16_t>(h));
  return all;
}

// Every exponent, random mantissas, and the values around every half: the midpoints and their neighbours.
std::vector<float> FloatsToRound() {
  std::vector<float> x;
  std::mt19937 rng(5);
  for (int n = 0; n < 200000; ++n) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng())));
  for (unsigned h = 0; h < 0x7c00; ++h) {
    const auto low = static_cast<float>(ValueOfHalf(static_cast<std::uint16_t>(h)));
    const float high =
        h == 0x7bff ? 65536.0f : static_cast<float>(ValueOfHalf(static_cast<std::uint16_t>(h + 1)));
    const float middle = low + (high - low) / 2;
    for (const float v : {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)})
      x.insert(x.end(), {v, -v});
  }
  for (const float v : {0.0f, 1e-8f, 65519.99f, 65520.0f, 1e30f, std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::quiet_NaN(),
                        std::numeric_limits<float>::signaling_NaN()})
    x.insert(x.end(), {v, -v});
  x.push_back(1);  // an odd length: not a whole number of vectors
  return x;
}

TEST(Half, EveryPatternHasItsValueAndComesBack) {
  for (const std::uint16_t h : AllPatterns()) {
    const float f = FloatFromHalf(h);
    if ((h & 0x7c00) != 0x7c00) {
      ASSERT_EQ(f, ValueOfHalf(h)) << h;
      ASSERT_EQ(std::signbit(f), (h & 0x8000) != 0) << h;
    } else if ((h & 0x3ff) == 0) {
      ASSERT_TRUE(std::isinf(f)) << h;
    } else {
      ASSERT_TRUE(std::isnan(f)) << h;
      ASSERT_EQ(HalfFromFloat(f), h | 0x200) << h;  // quiet bit set, payload kept
      continue;
    }
    ASSERT_EQ(HalfFromFloat(f), h);
  }
}

// By the definition of rounding: no other half is nearer, and at a tie the mantissa is even.
TEST(Half, RoundsToNearestEven) {
  for (const float x : FloatsToRound()) {
    const std::uint16_t h = HalfFromFloat(x);
    if (std::isnan(x)) {
      ASSERT_TRUE((h & 0x7c00) == 0x7c00 && (h & 0x3ff) != 0);
      continue;
    }
    ASSERT_EQ((h & 0x8000) != 0, std::signbit(x));
    const double magnitude = std::abs(static_cast<double>(x));
    const int m = h & 0x7fff;
    if (m == 0x7c00) {
      ASSERT_GE(magnitude, 65520) << x;  // halfway between 65504 and 65536, whose mantissa is even
      continue;
    }
    const double error = std::abs(ValueOfHalf(static_cast<std::uint16_t>(m)) - magnitude);
    const double up =
        m == 0x7bff ? 65536 - magnitude : ValueOfHalf(static_cast<std::uint16_t>(m + 1)) - magnitude;
    ASSERT_TRUE(error < up || (error == up && m % 2 == 0)) << x;
    if (m == 0) continue;
    const double down = magnitude - ValueOfHalf(static_cast<std::uint16_t>(m - 1));
    ASSERT_TRUE(error < down || (error == down && m % 2 == 0)) << x;
  }
}

// By hand: 1 + 2^-8 is halfway between 1 and 1 + 2^-7; 1 + 3 * 2^-8 halfway between the next two.
TEST(Bfloat, RoundsToNearestEven) {
  EXPECT_EQ(BfloatFromFloat(1.0f), 0x3f80);
  EXPECT_EQ(BfloatFromFloat(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(BfloatFromFloat(1 + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(BfloatFromFloat(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(BfloatFromFloat(-2.5f), 0xc020);
  EXPECT_EQ(BfloatFromFloat(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(BfloatFromFloat(std::bit_cast<float>(0x7f800001u)), 0x7fc0);  // must not become infinity
  for (const std::uint16_t b : AllPatterns()) {
    const float f = FloatFromBfloat(b);
    ASSERT_EQ(BfloatFromFloat(f), std::isnan(f) ? b | 0x40 : b);
  }
}

// By hand, values that a conversion by way of float would round twice: it would lose the last term, find a
// tie, and round that the other way.
TEST(Half, DoublesRoundOnce) {
  EXPECT_EQ(HalfFromDouble(1 + 0x1p-11), 0x3c00);  // a true tie
  EXPECT_EQ(HalfFromDouble(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(HalfFromDouble(-1 - 0x1p-11 - 0x1p-40), 0xbc01);
  EXPECT_EQ(HalfFromDouble(1 + 3 * 0x1p-11), 0x3c02);
  EXPECT_EQ(HalfFromDouble(1 + 3 * 0x1p-11 - 0x1p-40), 0x3c01);
  EXPECT_EQ(HalfFromDouble(0x1p-25 + 0x1p-60), 1);  // above half of the smallest subnormal
  EXPECT_EQ(HalfFromDouble(0x1p-25), 0);
  EXPECT_EQ(HalfFromDouble(65520 - 0x1p-30), 0x7bff);
  EXPECT_EQ(HalfFromDouble(1e300), 0x7c00);
  EXPECT_EQ(BfloatFromDouble(1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(BfloatFromDouble(1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(BfloatFromDouble(1 + 3 * 0x1p-8 - 0x1p-40), 0x3f81);
  EXPECT_EQ(BfloatFromDouble(-1e300), 0xff80);
  EXPECT_EQ(BfloatFromDouble(-1e-300), 0x8000);
  for (const std::uint16_t h : AllPatterns()) {
    const float f = FloatFromHalf(h), b = FloatFromBfloat(h);
    ASSERT_EQ(HalfFromDouble(double{f}), HalfFromFloat(f));
    ASSERT_EQ(BfloatFromDouble(double{b}), BfloatFromFloat(b));
  }
}

TEST(Convert, EveryTargetHasTheBitsOfTheScalarFunctions) {
  const std::vector<std::uint16_t> patterns = AllPatterns();
  const std::vector<float> floats = FloatsToRound();
  std::vector<float> from_half, from_bfloat;
  std::vector<std::uint16_t> to_half, to_bfloat;
  for (const std::uint16_t h : patterns) from_half.push_back(FloatFromHalf(h));
  for (const std::uint16_t b : patterns) from_bfloat.push_back(FloatFromBfloat(b));
  for (const float f : floats) to_half.push_back(HalfFromFloat(f));
  for (const float f : floats) to_bfloat.push_back(BfloatFromFloat(f));
  ForEachTarget([&] {
    std::vector<float> wide(patterns.size());
    F16ToF32(patterns, wide);
    EXPECT_TRUE(Bits(wide) == Bits(from_half));
    Bf16ToF32(patterns, wide);
    EXPECT_TRUE(Bits(wide) == Bits(from_bfloat));
    std::vector<std::uint16_t> narrow(floats.size());
    F32ToF16(floats, narrow);
    EXPECT_TRUE(narrow == to_half);
    F32ToBf16(floats, narrow);
    EXPECT_TRUE(narrow == to_bfloat);
  });
}

TEST(Convert, DoublesRoundToNearest) {
  const std::vector<double> in = {0.1, -1e300, 1 + 0x1p-24, 1 + 0x1p-23};
  std::vector<float> out(in.size());
  F64ToF32(in, out);
  EXPECT_THAT(out, testing::ElementsAre(0.1f, -std::numeric_limits<float>::infinity(), 1.0f, 1 + 0x1p-23f));
}

}  // namespace
}  // namespace so4cal
