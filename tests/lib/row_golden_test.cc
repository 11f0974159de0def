// SPDX-License-Identifier: Apache-2.0
// Row format version 1 and the head table bytes are frozen: a change of any byte here is a new version.
// SO4CAL_WRITE_GOLDEN=1 writes the files anew; to be used only when a new version is made.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "lib/row_codec.h"
#include "tests/support/codec_golden.h"
#include "tests/support/each_target.h"

namespace so4cal {
namespace {

constexpr std::size_t kTokens = 4;

std::string PathOf(const std::string& name) {
  std::string path =
      SO4CAL_SOURCE_DIR;  // not one expression: at -O1, g++ 12 warns of std::string's operator+
  path += "/tests/golden/good/row_v1_" + name + ".bin";
  return path;
}

void ExpectGolden(const std::string& name, const std::vector<std::uint8_t>& bytes) {
  if (std::getenv("SO4CAL_WRITE_GOLDEN") != nullptr)
    std::ofstream(PathOf(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  std::ifstream file(PathOf(name), std::ios::binary);
  const std::vector<char> golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes, std::vector<std::uint8_t>(golden.begin(), golden.end())) << PathOf(name);
}

std::vector<std::uint8_t> Rows(const HeadCodec& codec) {
  const std::vector<float> x = GoldenInput(kTokens * 64);
  std::vector<std::uint8_t> rows(kTokens * codec.spec().row_bytes());
  EXPECT_TRUE(codec.Encode({x.data(), kTokens, 64, 64}, rows).ok());
  return rows;
}

TEST(RowGolden, EveryGridAndWidth) {
  HeadTable table;
  table.transform = GoldenTransform();
  for (const auto& grid : GridKinds())
    for (const int bits : {2, 3, 4})
      ForEachTarget([&] {
        std::vector<std::uint8_t> bytes;  // four rows with absmax, four with mse
        for (const auto& scale : ScaleRules()) {
          const std::vector<std::uint8_t> rows =
              Rows(HeadCodec({64, bits, 32, grid.value, scale.value}, table));
          bytes.insert(bytes.end(), rows.begin(), rows.end());
        }
        ExpectGolden(std::string(grid.name) + std::to_string(bits), bytes);
      });
}

// The pair that tests/install/program.c reads.
TEST(RowGolden, HeadTableBytesAndTheirRows) {
  HeadTable table;
  table.transform = GoldenTransform();
  const std::vector<std::uint8_t> bytes =
      SerializeHeadTable({64, 3, 32, GridKind::kLloyd, ScaleRule::kMse}, table);
  ExpectGolden("head_table", bytes);
  ExpectGolden("head_table_rows", Rows(HeadCodec::FromBytes(bytes)));
}

}  // namespace
}  // namespace so4cal
