// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

// A tensor in a pickle: storage type, key, offset, shape, strides (tuples of small integers as pickle text).
std::string TensorFile(const std::string& type, const std::string& offset, const std::string& shape,
                       const std::string& strides, const std::string& data) {
  const std::string pickle =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n"s +
      type +
      "\nX\1\0\0\0"
      "0X\3\0\0\0cpuK\6tQ"s +
      offset + shape + strides +
      "\x89"
      "ccollections\nOrderedDict\n)RtR.";
  return SerializeZip({{"t/data.pkl", pickle}, {"t/data/0", data}, {"t/version", "3\n"}}, "t");
}

std::string ErrorOf(const std::string& bytes) {
  try {
    const TorchFile file(bytes, "t");
    file.Tensor(file.root(), "it");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TorchFile, ReadsWhatItWrites) {
  TorchWriter writer;
  writer.pickle().BeginDict();
  writer.pickle().Text("r");
  writer.Tensor(std::vector<std::uint64_t>{2, 3}, std::vector<float>{1, 2, 3, 4, 5, -6});
  writer.pickle().EndDict();
  const TorchFile file(std::move(writer).Finish("stem", "t"), "t");
  const TorchTensor tensor = file.Tensor(*file.root().Find("r"), "r");
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_THAT(tensor.values, ElementsAre(1, 2, 3, 4, 5, -6));
}

TEST(TorchFile, ReadsStridesOffsetsAndTypes) {
  // bf16 patterns of 1, 2, 3, 4, 5, 6
  const std::string data = "\x80\x3f\0\x40\x40\x40\x80\x40\xa0\x40\xc0\x40"s;
  const auto read = [&](const std::string& offset, const std::string& shape, const std::string& strides) {
    const TorchFile file(TensorFile("BFloat16Storage", offset, shape, strides, data), "t");
    return file.Tensor(file.root(), "it").values;
  };
  EXPECT_THAT(read("K\0"s, "K\2K\3\x86", "K\3K\1\x86"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read("K\0"s, "K\3K\2\x86", "K\1K\3\x86"), ElementsAre(1, 4, 2, 5, 3, 6));  // transposed
  EXPECT_THAT(read("K\3"s, "K\3\x85", "K\1\x85"), ElementsAre(4, 5, 6));
}

TEST(TorchFile, TensorsOutsideTheirStorageAreRefused) {
  const std::string data(24, '\0');
  EXPECT_EQ(ErrorOf(TensorFile("FloatStorage", "K\0"s, "K\6\x85", "K\1\x85", data)), "");
  for (const auto& [offset, shape, strides] :
       {std::tuple{"K\1"s, "K\6\x85"s, "K\1\x85"s},  // one too far
        {"K\0"s, "K\7\x85"s, "K\1\x85"s},
        {"K\0"s, "K\3\x85"s, "K\3\x85"s},
        {"K\0"s, "K\7\x85"s, "K\0\x85"s},  // one value seven times
        {"J\xff\xff\xff\xff"s, "K\1\x85"s, "K\1\x85"s},
        {"K\0"s, "J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"s, "K\1K\1\x86"s}})
    EXPECT_THAT(ErrorOf(TensorFile("FloatStorage", offset, shape, strides, data)),
                HasSubstr("outside its storage"));
  EXPECT_THAT(ErrorOf(TensorFile("DoubleStorage", "K\0"s, "K\6\x85", "K\1\x85", data)), HasSubstr("outside"));
}

TEST(TorchFile, OtherFilesAreRefused) {
  EXPECT_THAT(ErrorOf(SerializeZip({{"a", "b"}}, "t")), HasSubstr("no data.pkl"));
  EXPECT_THAT(ErrorOf(SerializeZip({{"t/data.pkl", "N."}, {"t/byteorder", "big"}}, "t")),
              HasSubstr("byte order"));
  EXPECT_THAT(ErrorOf(SerializeZip({{"t/data.pkl", "N."}}, "t")), HasSubstr("is no tensor"));
  EXPECT_THAT(ErrorOf("not a zip"), HasSubstr("not a zip archive"));
}

}  // namespace
}  // namespace so4cal
