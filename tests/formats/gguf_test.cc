// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "formats/byte_writer.h"
#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

GgufHeader Sample() {
  GgufHeader header;
  header.keys = GgufTextKey("general.architecture", "llama") + GgufNumberKey("llama.block_count", 2);
  header.num_keys = 2;
  header.tensors = {{"a", {4, 2}, GgufTensor::kF32, 0}, {"b", {32}, 2, 32}};  // 32 bytes, then one Q4_0 block
  return header;
}

std::string Bytes(const GgufHeader& header, std::size_t data_bytes = 64) {
  return SerializeGgufHeader(header) + std::string(data_bytes, '\1');
}

GgufHeader Read(const std::string& bytes) {
  const TempFolder folder;
  std::ofstream(folder / "m.gguf", std::ios::binary) << bytes;
  return ReadGgufHeader(folder / "m.gguf");
}

std::string ErrorOf(const std::string& bytes) {
  try {
    Read(bytes);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Gguf, ReadsWhatItWrites) {
  const GgufHeader header = Sample(), read = Read(Bytes(header));
  EXPECT_EQ(read.version, 3U);
  EXPECT_EQ(read.keys, header.keys);
  EXPECT_EQ(read.texts.at("general.architecture"), "llama");
  EXPECT_EQ(read.numbers.at("llama.block_count"), 2U);
  ASSERT_EQ(read.tensors.size(), 2U);
  EXPECT_EQ(read.tensors[0].extents, (std::vector<std::uint64_t>{4, 2}));
  EXPECT_EQ(read.tensors[1].offset, 32U);
  EXPECT_EQ(read.data_begin % 32, 0U);
  EXPECT_EQ(SerializeGgufHeader(read), SerializeGgufHeader(header));
}

// Every type of value, in arrays and alone, is passed over and kept.
TEST(Gguf, KeepsKeysOfEveryType) {
  GgufHeader header = Sample();
  const std::size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (std::uint32_t type = 0; type < 13; ++type) {
    if (sizes[type] == 0) continue;
    for (const bool array : {false, true}) {
      AppendLittleEndian(header.keys, std::uint64_t{1});
      header.keys += static_cast<char>('A' + type);
      AppendLittleEndian(header.keys, array ? std::uint32_t{9} : type);
      if (array) {
        AppendLittleEndian(header.keys, type);
        AppendLittleEndian(header.keys, std::uint64_t{3});
      }
      header.keys += std::string((array ? 3 : 1) * sizes[type], '\0');
      ++header.num_keys;
    }
  }
  EXPECT_EQ(Read(Bytes(header)).keys, header.keys);
}

TEST(Gguf, SizesOfBlocks) {
  EXPECT_EQ(GgufTensorBytes({"t", {256, 3}, 12, 0}, "f"), 3 * 144U);  // Q4_K
  EXPECT_EQ(GgufTensorBytes({"t", {5, 3}, 30, 0}, "f"), 30U);         // BF16
  EXPECT_THROW(GgufTensorBytes({"t", {33}, 2, 0}, "f"), Error);
  EXPECT_THROW(GgufTensorBytes({"t", {32}, 999, 0}, "f"), Error);
  EXPECT_THROW(GgufTensorBytes({"t", {1ULL << 40, 1ULL << 40}, 0, 0}, "f"), Error);
  EXPECT_EQ(GgufTypeName(14), "Q6_K");
}

TEST(Gguf, HostileHeadersAreRefusedWithoutTheirMemory) {
  std::string bytes = Bytes(Sample());
  const auto with = [&](std::size_t at, std::uint64_t value) {
    std::string changed = bytes, number;
    AppendLittleEndian(number, value);
    return changed.replace(at, 8, number);
  };
  EXPECT_THAT(ErrorOf(with(8, 1ULL << 60)), HasSubstr("tensors, more than the file can hold"));
  EXPECT_THAT(ErrorOf(with(16, 1ULL << 60)), HasSubstr("keys, more than the file can hold"));
  EXPECT_THAT(ErrorOf(with(24, 1ULL << 62)), HasSubstr("more bytes"));  // the first key's length
  EXPECT_THAT(ErrorOf("GGUX" + bytes.substr(4)), HasSubstr("expected a GGUF file"));
  EXPECT_THAT(ErrorOf(bytes.substr(0, 4) + "\4" + bytes.substr(5)), HasSubstr("version"));
  EXPECT_THAT(ErrorOf(Bytes(Sample(), 40)), HasSubstr("'b' ends behind the end of the file"));
  const auto edited = [](const std::function<void(GgufHeader&)>& edit) {
    GgufHeader header = Sample();
    edit(header);
    return ErrorOf(Bytes(header));
  };
  EXPECT_THAT(edited([](GgufHeader& h) { h.tensors[1].offset = 0; }), HasSubstr("overlaps"));
  EXPECT_THAT(edited([](GgufHeader& h) { h.tensors[1].offset = 33; }), HasSubstr("alignment"));
  EXPECT_THAT(edited([](GgufHeader& h) { h.tensors[1].name = "a"; }), HasSubstr("'a' comes twice"));
  EXPECT_THAT(edited([](GgufHeader& h) { h.tensors[1].extents = {1, 1, 1, 1, 1}; }), HasSubstr("dimensions"));
  EXPECT_THAT(edited([](GgufHeader& h) { h.tensors[0].offset = 1ULL << 63; }), HasSubstr("behind the end"));
  EXPECT_THAT(edited([](GgufHeader& h) {
                h.keys += GgufNumberKey("general.alignment", 24);
                ++h.num_keys;
              }),
              HasSubstr("power of two"));
  EXPECT_THAT(edited([](GgufHeader& h) {  // arrays in arrays
                AppendLittleEndian(h.keys, std::uint64_t{1});
                h.keys += 'x';
                for (int i = 0; i < 100; ++i) {
                  AppendLittleEndian(h.keys, std::uint32_t{9});
                  if (i > 0) AppendLittleEndian(h.keys, std::uint64_t{1});
                }
                ++h.num_keys;
              }),
              HasSubstr("arrays inside arrays"));
}

TEST(Gguf, EveryTruncationIsRefused) {
  const std::string good = SerializeGgufHeader(Sample());
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_NE(ErrorOf(good.substr(0, size)), "") << size;
}

// A tensor that starts beyond 4 GiB, in a file with a hole: offsets are 64-bit.
TEST(Gguf, OffsetsBeyondFourGigabytes) {
  const TempFolder folder;
  GgufHeader header = Sample();
  header.tensors[0].extents = {std::uint64_t{5} << 28, 1};  // 5 GiB
  header.tensors[1].offset = std::uint64_t{5} << 30;
  std::ofstream(folder / "m.gguf", std::ios::binary) << SerializeGgufHeader(header);
  const GgufHeader small = Sample();
  std::filesystem::resize_file(folder / "m.gguf",
                               SerializeGgufHeader(header).size() + header.tensors[1].offset + 18);
  EXPECT_EQ(ReadGgufHeader(folder / "m.gguf").tensors[1].offset, std::uint64_t{5} << 30);
  std::filesystem::resize_file(folder / "m.gguf",
                               SerializeGgufHeader(header).size() + header.tensors[1].offset + 17);
  EXPECT_THROW(ReadGgufHeader(folder / "m.gguf"), Error);
}

}  // namespace
}  // namespace so4cal
