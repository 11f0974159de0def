// SPDX-License-Identifier: Apache-2.0
#include "lib/so4codec.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <string>

#include "lib/attention.h"
#include "lib/row_codec.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::Each;
using testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;
using Handle = std::unique_ptr<so4_codec, decltype(&so4_destroy)>;

constexpr CodecSpec kSpec{64, 3, 32, GridKind::kSymmetric, ScaleRule::kMse};
constexpr std::size_t kRows = 5;

Bytes TableBytes() {
  HeadTable table;
  table.transform = RandomTransform(64, 150);
  return SerializeHeadTable(kSpec, table);
}

Handle Make(const Bytes& bytes) {
  so4_codec* codec = nullptr;
  EXPECT_EQ(so4_create(bytes.data(), bytes.size(), &codec, nullptr, 0), SO4_OK);
  return {codec, so4_destroy};
}

// What the C++ functions behind it give.
TEST(CInterface, DoesWhatTheCodecDoes) {
  const Bytes bytes = TableBytes();
  const Handle codec = Make(bytes);
  const HeadCodec direct = HeadCodec::FromBytes(bytes);
  ASSERT_EQ(so4_head_dim(codec.get()), 64u);
  ASSERT_EQ(so4_row_bytes(codec.get()), kSpec.row_bytes());
  const std::vector<float> x = Noise(kRows * 70, 151);  // rows 70 floats apart
  Bytes rows(kRows * kSpec.row_bytes()), want_rows(rows.size());
  ASSERT_EQ(so4_encode(codec.get(), x.data(), kRows, 70, rows.data(), rows.size(), nullptr), SO4_OK);
  ASSERT_TRUE(direct.Encode({x.data(), kRows, 70, 64}, want_rows).ok());
  EXPECT_EQ(rows, want_rows);

  std::vector<float> out(kRows * 64), want(out.size());
  ASSERT_EQ(so4_decode(codec.get(), rows.data(), rows.size(), out.data(), kRows, nullptr), SO4_OK);
  ASSERT_TRUE(direct.Decode(rows, want).ok());
  EXPECT_EQ(out, want);
  ASSERT_EQ(so4_decode_rotated(codec.get(), rows.data(), rows.size(), out.data(), kRows, nullptr), SO4_OK);
  ASSERT_TRUE(direct.DecodeRotated(rows, want).ok());
  EXPECT_EQ(out, want);

  const std::vector<float> q = Noise(3 * 64, 152);
  out.resize(3 * 64);
  want.resize(3 * 64);
  ASSERT_EQ(so4_attention(codec.get(), codec.get(), rows.data(), rows.size(), rows.data(), rows.size(), kRows,
                          0.125f, q.data(), 3, out.data(), nullptr),
            SO4_OK);
  ASSERT_TRUE(Attention(direct, direct, rows, rows, 0.125f, q, want).ok());
  EXPECT_EQ(out, want);
}

TEST(CInterface, CreateExplainsWhatIsWrongAndCutsTheMessage) {
  Bytes bytes = TableBytes();
  bytes[8] = 9;
  so4_codec* codec = reinterpret_cast<so4_codec*>(&bytes);
  char message[100], tiny[8];
  EXPECT_EQ(so4_create(bytes.data(), bytes.size(), &codec, message, sizeof message), SO4_ERROR_TABLE);
  EXPECT_EQ(codec, nullptr);
  EXPECT_THAT(message, HasSubstr("version is 9"));
  EXPECT_EQ(so4_create(bytes.data(), bytes.size(), &codec, tiny, sizeof tiny), SO4_ERROR_TABLE);
  EXPECT_EQ(std::string(tiny), "head ta");
  EXPECT_EQ(so4_create(bytes.data(), bytes.size(), &codec, nullptr, 0), SO4_ERROR_TABLE);
  EXPECT_EQ(so4_create(nullptr, 0, &codec, nullptr, 0), SO4_ERROR_ARGUMENT);
  EXPECT_EQ(so4_create(bytes.data(), bytes.size(), nullptr, nullptr, 0), SO4_ERROR_ARGUMENT);
}

TEST(CInterface, ErrorsOfRowsCarryTheirPlaceAndWriteNothing) {
  const Handle codec = Make(TableBytes());
  std::vector<float> x = Noise(kRows * 64, 153), out(kRows * 64, 42.0f);
  Bytes rows(kRows * kSpec.row_bytes());
  so4_place where{};
  ASSERT_EQ(so4_encode(codec.get(), x.data(), kRows, 64, rows.data(), rows.size(), &where), SO4_OK);
  const Bytes good = rows;
  x[3 * 64 + 7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(so4_encode(codec.get(), x.data(), kRows, 64, rows.data(), rows.size(), &where),
            SO4_ERROR_NOT_FINITE);
  EXPECT_EQ(where.row, 3u);
  EXPECT_EQ(where.channel, 7u);
  x[3 * 64 + 7] = 3e38f;
  EXPECT_EQ(so4_encode(codec.get(), x.data(), kRows, 64, rows.data(), rows.size(), &where),
            SO4_ERROR_SCALE_OVERFLOW);
  EXPECT_EQ(rows, good);
  rows[2 * kSpec.row_bytes() + 1] = 0x7f;
  EXPECT_EQ(so4_decode(codec.get(), rows.data(), rows.size(), out.data(), kRows, &where),
            SO4_ERROR_INVALID_SCALE);
  EXPECT_EQ(where.row, 2u);
  rows = good;
  for (std::size_t i = kSpec.scale_bytes(); i < kSpec.row_bytes(); ++i) rows[i] = 0xff;
  EXPECT_EQ(so4_decode_rotated(codec.get(), rows.data(), rows.size(), out.data(), kRows, &where),
            SO4_ERROR_INVALID_CODE);
  EXPECT_EQ(so4_attention(codec.get(), codec.get(), good.data(), good.size(), rows.data(), rows.size(), kRows,
                          1, x.data(), 1, out.data(), nullptr),
            SO4_ERROR_INVALID_CODE);
  EXPECT_THAT(out, Each(42.0f));
}

TEST(CInterface, ArgumentsAndSizesAreChecked) {
  const Handle codec = Make(TableBytes());
  so4_codec* c = codec.get();
  std::vector<float> x(kRows * 64), out(64);
  Bytes rows(kRows * kSpec.row_bytes());
  const std::size_t n = rows.size();
  EXPECT_EQ(so4_encode(nullptr, x.data(), kRows, 64, rows.data(), n, nullptr), SO4_ERROR_ARGUMENT);
  EXPECT_EQ(so4_encode(c, nullptr, kRows, 64, rows.data(), n, nullptr), SO4_ERROR_ARGUMENT);
  EXPECT_EQ(so4_encode(c, x.data(), kRows, 64, nullptr, n, nullptr), SO4_ERROR_ARGUMENT);
  EXPECT_EQ(so4_encode(c, x.data(), kRows, 63, rows.data(), n, nullptr), SO4_ERROR_ARGUMENT);
  EXPECT_EQ(so4_encode(c, x.data(), kRows, 64, rows.data(), n - 1, nullptr), SO4_ERROR_SIZE);
  EXPECT_EQ(so4_encode(c, x.data(), kRows - 1, 64, rows.data(), n, nullptr), SO4_ERROR_SIZE);
  EXPECT_EQ(so4_encode(c, nullptr, 0, 64, nullptr, 0, nullptr), SO4_OK);
  EXPECT_EQ(so4_decode(c, rows.data(), n - 1, x.data(), kRows, nullptr), SO4_ERROR_SIZE);
  EXPECT_EQ(so4_decode(c, rows.data(), n, nullptr, kRows, nullptr), SO4_ERROR_ARGUMENT);
  EXPECT_EQ(so4_decode_rotated(c, rows.data(), n + 1, x.data(), kRows, nullptr), SO4_ERROR_SIZE);
  const auto attend = [&](std::size_t key_bytes, std::size_t value_bytes, std::size_t num_rows, float scale) {
    return so4_attention(c, c, rows.data(), key_bytes, rows.data(), value_bytes, num_rows, scale, x.data(), 1,
                         out.data(), nullptr);
  };
  EXPECT_EQ(attend(n, n, kRows, 1), SO4_OK);
  EXPECT_EQ(attend(n - 1, n, kRows, 1), SO4_ERROR_SIZE);
  EXPECT_EQ(attend(n, n - 1, kRows, 1), SO4_ERROR_SIZE);
  EXPECT_EQ(attend(0, 0, 0, 1), SO4_ERROR_ARGUMENT);
  EXPECT_EQ(attend(n, n, kRows, std::numeric_limits<float>::quiet_NaN()), SO4_ERROR_ARGUMENT);
  so4_destroy(nullptr);
  EXPECT_EQ(so4_head_dim(nullptr), 0u);
  EXPECT_EQ(so4_row_bytes(nullptr), 0u);
}

TEST(CInterface, EveryStatusHasItsOwnSentence) {
  std::set<std::string> sentences;
  for (int status = SO4_OK; status <= SO4_ERROR_INVALID_SCALE; ++status)
    sentences.insert(so4_error_string(status));
  EXPECT_EQ(sentences.size(), 9u);
  EXPECT_EQ(std::string(so4_error_string(-1)), "unknown status");
  EXPECT_EQ(std::string(so4_error_string(1000)), "unknown status");
}

TEST(CInterface, Version) {
  int major = 0, minor = 0, patch = 0;
  ASSERT_EQ(std::sscanf(SO4CAL_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
  EXPECT_EQ(so4_version(), static_cast<std::uint32_t>(major << 16 | minor << 8 | patch));
}

}  // namespace
}  // namespace so4cal
