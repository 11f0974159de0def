// SPDX-License-Identifier: Apache-2.0
#include "formats/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "formats/byte_writer.h"
#include "lib/error.h"
#include "tests/support/model_folder.h"

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::WriteSafetensors;
using testing::ZeroTensor;

std::string ErrorOf(const std::filesystem::path& path) {
  try {
    OpenModel(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::vector<std::string> Names(const ModelFiles& model) {
  std::vector<std::string> names;
  for (const ModelTensor& tensor : model.tensors) names.push_back(tensor.name + "@" + tensor.file);
  return names;
}

// A tensor behind one of 5 GiB, in a file with a hole: places are 64-bit, and only the header is read.
TEST(ModelFiles, PlacesBeyondFourGigabytes) {
  const TempFolder folder;
  constexpr std::uint64_t kLarge = std::uint64_t{5} << 30;
  const std::string header =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[5368709120],\"data_offsets\":[0,5368709120]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[5368709120,5368709128]}}";
  std::string bytes;
  AppendLittleEndian(bytes, static_cast<std::uint64_t>(header.size()));
  std::ofstream(folder / "m.safetensors", std::ios::binary) << bytes << header;
  std::filesystem::resize_file(folder / "m.safetensors", 8 + header.size() + kLarge + 8);
  const ModelFiles model = OpenModel(folder / "m.safetensors");
  ASSERT_EQ(model.tensors.size(), 2U);
  EXPECT_EQ(model.tensors[1].begin, 8 + header.size() + kLarge);
  std::filesystem::resize_file(folder / "m.safetensors", 8 + header.size() + kLarge + 7);
  EXPECT_THROW(OpenModel(folder / "m.safetensors"), Error);
}

// The place of a tensor's data: what is written there is what the library's reader finds in the tensor.
TEST(ModelFiles, PlacesInAFolder) {
  const TempFolder folder;
  WriteSafetensors(folder / "model.safetensors", {ZeroTensor("a", {2, 3}), ZeroTensor("b", {4})});
  const ModelFiles model = OpenModel(folder.path());
  EXPECT_TRUE(model.whole_folder);
  EXPECT_THAT(Names(model), ElementsAre("a@model.safetensors", "b@model.safetensors"));
  EXPECT_THAT(model.tensors[0].shape, ElementsAre(2, 3));
  std::string bytes = ReadFileBytes(folder / "model.safetensors");
  bytes.replace(model.tensors[1].begin, 4, "wxyz");
  EXPECT_EQ(ParseSafetensors(bytes, "").tensors[1].bytes.substr(0, 4), "wxyz");
  EXPECT_THAT(Names(OpenModel(folder.path() / "")),
              ElementsAre("a@model.safetensors", "b@model.safetensors"));
  EXPECT_FALSE(OpenModel(folder / "model.safetensors").whole_folder);
}

TEST(ModelFiles, Shards) {
  const TempFolder folder;
  WriteSafetensors(folder / "1.safetensors", {ZeroTensor("a", {1})});
  WriteSafetensors(folder / "2.safetensors", {ZeroTensor("b", {1}), ZeroTensor("c", {1})});
  const auto index = [&](const std::string& map) {
    WriteBytesAtomically(folder / "model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
    return ErrorOf(folder.path());
  };
  EXPECT_EQ(index(R"("a":"1.safetensors","b":"2.safetensors","c":"2.safetensors")"), "");
  EXPECT_THAT(Names(OpenModel(folder.path())),
              ElementsAre("a@1.safetensors", "b@2.safetensors", "c@2.safetensors"));
  EXPECT_EQ(index(R"("a":"1.safetensors","b":"2.safetensors")"), "");  // c is in no one's way
  EXPECT_THAT(index(R"("a":"1.safetensors","b":"1.safetensors","c":"2.safetensors")"),
              HasSubstr("'b' is in 2.safetensors, the index says 1.safetensors"));
  EXPECT_THAT(index(R"("a":"1.safetensors","d":"2.safetensors")"), HasSubstr("'d' is not in 2.safetensors"));
  for (const char* outside : {"\"../1.safetensors\"", "\"/1.safetensors\"", "\"..\"", "\"\"", "1", "null"})
    EXPECT_THAT(index(std::string("\"a\":") + outside), HasSubstr("expected the name of a file beside it"));
  // A tensor that the index lacks is in no one's way, unless it is unclear which one counts.
  WriteSafetensors(folder / "1.safetensors", {ZeroTensor("a", {1}), ZeroTensor("c", {1})});
  EXPECT_THAT(index(R"("a":"1.safetensors","b":"2.safetensors")"), HasSubstr("'c' is in two shards"));
}

TEST(ModelFiles, Refuses) {
  const TempFolder folder;
  EXPECT_THAT(ErrorOf(folder / "none"), HasSubstr("no such file or folder"));
  EXPECT_THAT(ErrorOf(folder.path()),
              HasSubstr("expected model.safetensors or model.safetensors.index.json"));
  WriteBytesAtomically(folder / "a.pt", "x");
  EXPECT_THAT(ErrorOf(folder / "a.pt"), HasSubstr("expected a model folder, a .safetensors or a .gguf file"));
  WriteSafetensors(folder / "model.safetensors", {});
  EXPECT_EQ(ErrorOf(folder.path()), "");
  WriteBytesAtomically(folder / "model.safetensors.index.json", "{}");
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("has both"));
}

TEST(ModelFiles, WhatGoesAlong) {
  const TempFolder folder;
  WriteSafetensors(folder / "model.safetensors", {});
  for (const char* name :
       {"config.json", "tokenizer.model", ".hidden", "a.bin", "a.bin.index.json", "b.safetensors"})
    WriteBytesAtomically(folder / name, "{}");
  std::filesystem::create_directory(folder / "sub");
  std::filesystem::create_symlink("config.json", folder / "link");
  std::filesystem::create_symlink("nothing", folder / "dangling");
  const FolderFiles files = FilesOfModelFolder(OpenModel(folder.path()));
  EXPECT_THAT(files.copied,
              ElementsAre(".hidden", "config.json", "link", "model.safetensors", "tokenizer.model"));
  EXPECT_THAT(files.left_out, ElementsAre("a.bin", "a.bin.index.json", "b.safetensors", "dangling", "sub"));
}

TEST(ModelFiles, CopiesCanBeWrittenAndStopped) {
  const TempFolder folder;
  std::string bytes(9 << 20, 'x');  // more than one part
  bytes += "end";
  WriteBytesAtomically(folder / "a", bytes);
  std::filesystem::permissions(folder / "a", std::filesystem::perms::owner_read);
  int parts = 0;
  CopyModelFile(folder / "a", folder / "b", [&] { ++parts; });
  EXPECT_EQ(parts, 2);
  EXPECT_TRUE(ReadFileBytes(folder / "b") == bytes);
  WriteBytesAtomically(folder / "b", "writable");
  EXPECT_THROW(CopyModelFile(folder / "a", folder / "c", [] { throw std::runtime_error("stop"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace so4cal
