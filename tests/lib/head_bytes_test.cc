// SPDX-License-Identifier: Apache-2.0
#include "lib/head_bytes.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "lib/error.h"
#include "lib/row_codec.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Bytes = std::vector<std::uint8_t>;

constexpr CodecSpec kSpec{16, 3, 8, GridKind::kLloyd, ScaleRule::kMse};

// Every optional part at once: header 36, strides 2 * 4 (at 36), signs 16 (44), offset 64 (60),
// blocks 2 * 4 * 64 (124), metric 16 * 16 * 4 (636), checksum (1660).
HeadTable FullTable() {
  HeadTable table;
  table.transform = RandomTransform(16, 110);
  table.rounding = Rounding::kRefined;
  table.damping = 0.125f;
  table.rounds = 2;
  for (int i = 0; i < 256; ++i) table.metric.push_back(i % 17 == 0 ? 2.0f : 0.5f);
  return table;
}

HeadTable DenseTable() {
  HeadTable table;
  table.transform.head_dim = 16;
  table.transform.dense = DenseMatrix(RandomTransform(16, 111));
  for (double& v : table.transform.dense) v = static_cast<float>(v);
  table.chosen = Chosen::kDense;
  return table;
}

void PutU32(Bytes& bytes, std::size_t at, std::uint32_t v) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::uint8_t>(v >> (8 * i));
}
void PutF32(Bytes& bytes, std::size_t at, float v) { PutU32(bytes, at, std::bit_cast<std::uint32_t>(v)); }

// So that what is tested is the field's own check, not the checksum.
void FixChecksum(Bytes& bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (std::size_t i = 0; i + 4 < bytes.size(); ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
  }
  PutU32(bytes, bytes.size() - 4, ~crc);
}

TEST(HeadBytes, LayoutByHand) {
  const HeadTable table = FullTable();
  const Bytes bytes = SerializeHeadTable(kSpec, table);
  ASSERT_EQ(bytes.size(), 1664u);
  const Bytes header(bytes.begin(), bytes.begin() + 44);
  EXPECT_EQ(header, (Bytes{'S', 'O', '4', 'H',  'E',  'A',  'D', 0,  // magic
                           1,   0,   0,   0,    0x80, 0x06, 0,   0,  // version, length 1664
                           16,  0,   0,   0,    8,    0,    0,   0,  // head_dim, block
                           3,   2,   1,   2,    2,                   // bits, lloyd, mse, refined, fitted
                           23,  2,   2,          // Hadamard + signs + offset + metric, rounds, stages
                           0,   0,   0,   0x3e,  // damping 0.125
                           1,   0,   0,   0,    4,    0,    0,   0}));  // strides 1, 4
  EXPECT_EQ(bytes[44], table.transform.signs[0] == 1 ? 1 : 255);
  EXPECT_EQ(Bytes(bytes.begin() + 636, bytes.begin() + 644), (Bytes{0, 0, 0, 0x40, 0, 0, 0, 0x3f}));
}

// CRC-32 of "123456789" is cbf43926 by definition of that checksum; here through the format's last bytes.
TEST(HeadBytes, ChecksumIsCrc32) {
  Bytes bytes = SerializeHeadTable(kSpec, FullTable()), fixed = bytes;
  FixChecksum(fixed);
  EXPECT_EQ(fixed, bytes);
  Bytes known = {'1', '2', '3', '4', '5', '6', '7', '8', '9', 0, 0, 0, 0};
  FixChecksum(known);
  EXPECT_EQ(Bytes(known.end() - 4, known.end()), (Bytes{0x26, 0x39, 0xf4, 0xcb}));
}

TEST(HeadBytes, ParsingGivesTheSameHeadToFloatAccuracy) {
  for (const int head_dim : kHeadDims) {
    HeadTable table;
    table.transform = RandomTransform(head_dim, 112);
    const CodecSpec spec{head_dim, 4, 8, GridKind::kFull, ScaleRule::kAbsmax};
    const ParsedHeadTable parsed = ParseHeadTable(SerializeHeadTable(spec, table));
    EXPECT_EQ(parsed.spec, spec);
    ASSERT_EQ(parsed.table.transform.stages.size(), table.transform.stages.size());
    HeadTable expected = table;
    for (std::size_t s = 0; s < table.transform.stages.size(); ++s)
      for (std::size_t b = 0; b < table.transform.stages[s].blocks.size(); ++b) {
        const So4 &got = parsed.table.transform.stages[s].blocks[b],
                  &want = table.transform.stages[s].blocks[b];
        for (std::size_t c = 0; c < 4; ++c) {  // matrix entries were rounded to 2^-25
          EXPECT_NEAR(got.left[c], want.left[c], 1e-7);
          EXPECT_NEAR(got.right[c], want.right[c], 1e-7);
        }
      }
    expected.transform.stages = parsed.table.transform.stages;
    EXPECT_EQ(parsed.table, expected);  // all the rest is exact
  }
}

// Quaternions made from rounded matrices give matrices that may differ in the last bit: this is what holds.
TEST(HeadBytes, SerializingAgainKeepsAllButTheLastBitOfBlocks) {
  const Bytes bytes = SerializeHeadTable(kSpec, FullTable());
  const ParsedHeadTable parsed = ParseHeadTable(bytes);
  const Bytes again = SerializeHeadTable(parsed.spec, parsed.table);
  ASSERT_EQ(again.size(), bytes.size());
  for (std::size_t i = 0; i < bytes.size() - 4; ++i)
    if (i < 124 || i >= 636) {
      ASSERT_EQ(again[i], bytes[i]) << i;
    }
  const HeadFromBytes a = ReadHeadBytes(bytes), b = ReadHeadBytes(again);
  for (std::size_t s = 0; s < 2; ++s)
    EXPECT_THAT(b.rotation.forward[s].coefficients,
                testing::Pointwise(testing::FloatNear(1.2e-7f), a.rotation.forward[s].coefficients));
  const Bytes dense = SerializeHeadTable(kSpec, DenseTable());
  EXPECT_EQ(SerializeHeadTable(kSpec, ParseHeadTable(dense).table), dense);
}

// The codec made from bytes has the very floats of the one made from the table: same rows, bit for bit.
TEST(HeadBytes, CodecFromBytesEncodesTheSameRows) {
  HeadTable stages;
  stages.transform = RandomTransform(16, 113);
  HeadTable identity = stages;
  identity.chosen = Chosen::kIdentity;
  for (const HeadTable& table : {stages, identity, DenseTable(), HeadTable(FullTable())}) {
    const HeadCodec from_table(kSpec, table),
        from_bytes = HeadCodec::FromBytes(SerializeHeadTable(kSpec, table));
    const std::vector<float> x = Noise(16 * 500, 114);
    std::vector<std::uint8_t> a(500 * kSpec.row_bytes()), b(a.size());
    ASSERT_TRUE(from_table.Encode({x.data(), 500, 16, 16}, a).ok());
    ASSERT_TRUE(from_bytes.Encode({x.data(), 500, 16, 16}, b).ok());
    EXPECT_EQ(a, b);
  }
}

TEST(HeadBytes, EveryTruncationAndEveryFlippedBitIsRefused) {
  for (const Bytes& good :
       {SerializeHeadTable(kSpec, FullTable()), SerializeHeadTable(kSpec, DenseTable())}) {
    ASSERT_NO_THROW(ParseHeadTable(good));
    for (std::size_t size = 0; size < good.size(); ++size)
      ASSERT_THROW(ParseHeadTable(std::span(good).first(size)), Error) << size;
    for (std::size_t i = 0; i < good.size(); ++i) {
      Bytes bad = good;
      bad[i] = static_cast<std::uint8_t>(bad[i] ^ (1u << (i % 8)));
      ASSERT_THROW(ParseHeadTable(bad), Error) << i;
    }
    Bytes longer = good;
    longer.push_back(0);
    EXPECT_THROW(ParseHeadTable(longer), Error);
  }
}

// The checksum is right, the field is wrong: each has its own reason.
TEST(HeadBytes, EveryFieldIsChecked) {
  const auto refused = [](auto change, const char* reason) {
    Bytes bytes = SerializeHeadTable(kSpec, FullTable());
    change(bytes);
    FixChecksum(bytes);
    EXPECT_THAT([&] { ParseHeadTable(bytes); }, ThrowsMessage<Error>(HasSubstr(reason)));
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  refused([](Bytes& b) { b[0] = 'X'; }, "SO4HEAD");
  refused([](Bytes& b) { b[8] = 2; }, "version is 2");
  refused([](Bytes& b) { PutU32(b, 12, 1663); }, "length is 1664, expected 1663");
  refused([](Bytes& b) { PutU32(b, 16, 24); }, "length is 1664, expected");
  refused([](Bytes& b) { PutU32(b, 16, 12); }, "head_dim is 12");
  refused([](Bytes& b) { PutU32(b, 16, 0xffffffff); }, "head_dim is");
  refused([](Bytes& b) { PutU32(b, 16, 0); }, "head_dim is 0");
  refused([](Bytes& b) { PutU32(b, 20, 5); }, "block is 5");
  refused([](Bytes& b) { PutU32(b, 20, 0); }, "block is 0");
  refused([](Bytes& b) { PutU32(b, 20, 0x80000008); }, "block is");
  refused([](Bytes& b) { b[24] = 5; }, "bits is 5");
  refused([](Bytes& b) { b[25] = 3; }, "symmetric, full, lloyd");
  refused([](Bytes& b) { b[26] = 2; }, "absmax, mse");
  refused([](Bytes& b) { b[27] = 3; }, "nearest, feedback, refined");
  refused([](Bytes& b) { b[27] = 0; }, "rounds is 2");
  refused([](Bytes& b) { b[28] = 4; }, "identity, hadamard, fitted, dense");
  refused([](Bytes& b) { b[28] = 3; }, "no dense rotation");
  refused([](Bytes& b) { b[29] = 32 + 23; }, "flags are 55");
  refused([](Bytes& b) { b[29] = 23 + 8; }, "length is 1664");
  refused([](Bytes& b) { b[29] = 21; }, "length is 1664");
  refused([](Bytes& b) { b[30] = 200; }, "rounds is 200");
  refused([](Bytes& b) { b[31] = 3; }, "length is 1664");
  refused([&](Bytes& b) { PutF32(b, 32, nan); }, "damping is");
  refused([](Bytes& b) { PutF32(b, 32, -1); }, "damping is -1");
  refused([](Bytes& b) { PutU32(b, 40, 3); }, "stride of stage 1 is 3");
  refused([](Bytes& b) { PutU32(b, 40, 0); }, "stride of stage 1 is 0");
  refused([](Bytes& b) { PutU32(b, 40, 0x40000001); }, "stride of stage 1");
  refused([](Bytes& b) { b[44] = 0; }, "sign of channel 0 is 0");
  refused([&](Bytes& b) { PutF32(b, 60 + 4 * 3, nan); }, "offset of channel 3");
  refused([&](Bytes& b) { PutF32(b, 124, nan); }, "NaN");
  refused([](Bytes& b) { PutF32(b, 124 + 64 * 5, 0.9f); }, "stage 1, block 1 is not a rotation");
  refused(
      [](Bytes& b) {
        for (std::size_t i = 0; i < 64; ++i) b[124 + i] = 0;
      },
      "all zero");
  refused(
      [](Bytes& b) {  // a reflection: one row of block 0 turned round
        for (std::size_t i = 0; i < 4; ++i) b[124 + 4 * i + 3] ^= 0x80;
      },
      "stage 0, block 0 is not a rotation");
  refused([&](Bytes& b) { PutF32(b, 636, nan); }, "metric has the trace");
  refused([](Bytes& b) { PutF32(b, 640, 100); }, "metric is not symmetric");
}

// Random damage behind a valid checksum neither crashes nor reads outside (run under a sanitizer too).
TEST(HeadBytes, RandomDamageNeverCrashes) {
  std::mt19937 rng(115);
  const Bytes good = SerializeHeadTable(kSpec, FullTable());
  for (int n = 0; n < 3000; ++n) {
    Bytes bad = good;
    for (int k = 0; k < 3; ++k) bad[rng() % 44] = static_cast<std::uint8_t>(rng());
    FixChecksum(bad);
    try {
      ParseHeadTable(bad);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace so4cal
