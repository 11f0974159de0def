// SPDX-License-Identifier: Apache-2.0
#include "formats/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/byte_writer.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;

// Of APPNOTE: signatures of local header, central directory, end.
constexpr std::string_view kLocal = "PK\3\4", kCentral = "PK\1\2", kEnd = "PK\5\6";

std::string Good() {
  return SerializeZip({{"a/one", "first"}, {"a/two", std::string(100, 'x')}, {"empty", ""}}, "zip");
}

std::string ErrorOf(const std::string& archive) {
  try {
    ParseZip(archive, "zip");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ZipArchive, ReadsWhatItWrites) {
  const std::string archive = Good();
  const auto members = ParseZip(archive, "zip");
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[0].name, "a/one");
  EXPECT_EQ(members[0].bytes, "first");
  EXPECT_EQ(members[1].bytes, std::string(100, 'x'));
  EXPECT_EQ(members[2].bytes, "");
  for (const ZipView& member : members)
    EXPECT_EQ(static_cast<std::size_t>(member.bytes.data() - archive.data()) % 64, 0U) << member.name;
}

TEST(ZipArchive, CrcIsThatOfTheFormat) {
  // CRC-32 of "123456789", the check value of the polynomial.
  const std::string archive = SerializeZip({{"n", "123456789"}}, "zip");
  EXPECT_EQ(LoadLittleEndian<std::uint32_t>(archive.data() + 14), 0xCBF43926U);
}

TEST(ZipArchive, DamageIsRefused) {
  std::string bad = Good();
  bad[bad.find("first")] = 'F';
  EXPECT_THAT(ErrorOf(bad), HasSubstr("member 'a/one' has another CRC"));
  bad = Good();
  bad[bad.find(kCentral) + 10] = 8;  // deflate
  EXPECT_THAT(ErrorOf(bad), HasSubstr("is compressed"));
  bad = Good();
  bad[bad.find(kCentral) + 24] = 1;  // sizes that differ: a bomb says it is larger
  EXPECT_THAT(ErrorOf(bad), HasSubstr("is compressed"));
  bad = Good();
  bad[bad.find(kCentral) + 8] = 1;
  EXPECT_THAT(ErrorOf(bad), HasSubstr("encrypted"));
  bad = Good();
  bad[bad.find(kEnd) + 10] = 99;
  EXPECT_THAT(ErrorOf(bad), HasSubstr("more members than its directory can hold"));
  bad = Good();
  bad[bad.find(kLocal)] = 'Q';
  EXPECT_THAT(ErrorOf(bad), HasSubstr("not where the directory says"));
  EXPECT_THAT(ErrorOf(SerializeZip({{"same", "1"}, {"same", "2"}}, "zip")), HasSubstr("'same' comes twice"));
}

// Two directory entries for the bytes of one member: how a small archive claims a large one.
TEST(ZipArchive, OverlapIsRefused) {
  std::string bad = SerializeZip({{"m1", "content"}, {"m2", "content"}}, "zip");
  const std::size_t second = bad.find(kCentral, bad.find(kCentral) + 1);
  bad.replace(second + 42, 4, std::string(4, '\0'));  // the local offset of m1
  EXPECT_THAT(ErrorOf(bad), HasSubstr("overlap"));
}

TEST(ZipArchive, EveryTruncationIsRefused) {
  const std::string good = Good();
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_NE(ErrorOf(good.substr(0, size)), "") << size;
}

// An archive whose sizes stand in zip64 fields, as torch writes every one.
TEST(ZipArchive, ReadsZip64) {
  std::string archive = SerializeZip({{"m", "content"}}, "zip");
  const std::size_t central = archive.find(kCentral), end = archive.find(kEnd);
  std::string entry = archive.substr(central, end - central), extra;
  AppendLittleEndian(extra, std::uint16_t{1});
  AppendLittleEndian(extra, std::uint16_t{24});
  for (const std::uint64_t value : {7, 7, 0})
    AppendLittleEndian(extra, value);  // size, stored size, local offset
  entry.replace(20, 8, std::string(8, '\xff'));
  entry.replace(42, 4, std::string(4, '\xff'));
  entry[30] = static_cast<char>(extra.size());
  entry += extra;
  std::string end64 = "PK\6\6";
  AppendLittleEndian(end64, std::uint64_t{44});
  end64 += std::string(12, '\0');
  for (const std::uint64_t value :
       {std::uint64_t{1}, std::uint64_t{1}, std::uint64_t{entry.size()}, std::uint64_t{central}})
    AppendLittleEndian(end64, value);
  std::string locator = "PK\6\7" + std::string(4, '\0');
  AppendLittleEndian(locator, std::uint64_t{central + entry.size()});
  locator += std::string(4, '\0');
  const std::string zip64 = archive.substr(0, central) + entry + end64 + locator + archive.substr(end);
  const auto members = ParseZip(zip64, "zip");
  ASSERT_EQ(members.size(), 1U);
  EXPECT_EQ(members[0].bytes, "content");
}

}  // namespace
}  // namespace so4cal
