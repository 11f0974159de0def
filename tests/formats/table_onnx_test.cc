// SPDX-License-Identifier: Apache-2.0
// What ONNX's own library makes of the file: tests/peers/test_exports.py.
#include "formats/table_onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "formats/protobuf.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;
using testing::SampleTable;
using testing::TempFolder;

std::string ErrorOf(const std::string& bytes) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "t.onnx", bytes);
  try {
    ReadTableOnnx(folder / "t.onnx", {});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// A model (graph is field 7) with initializers (field 5): dims 1, data_type 2, name 8, raw_data 9.
std::string ModelWith(const std::vector<std::string>& names, std::uint64_t type,
                      std::vector<std::uint64_t> shape, std::size_t raw_bytes) {
  std::string graph, model;
  for (const std::string& name : names) {
    std::string tensor;
    for (const std::uint64_t extent : shape) AppendProtoNumber(tensor, 1, extent);
    AppendProtoNumber(tensor, 2, type);
    AppendProtoBytes(tensor, 8, name);
    AppendProtoBytes(tensor, 9, std::string(raw_bytes, '\0'));
    AppendProtoBytes(graph, 5, tensor);
  }
  AppendProtoBytes(model, 7, graph);
  return model;
}

TEST(TableOnnx, OffsetsAreRefused) {
  const TempFolder folder;
  try {
    WriteTableOnnx(SampleTable(), folder / "t.onnx");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("fit with --offset none"));
  }
}

TEST(TableOnnx, OtherModelsAreRefused) {
  const std::string k = "layers.0.oscar_rotation_k";
  EXPECT_THAT(ErrorOf(ModelWith({"weight"}, 1, {1, 8, 8}, 256)), HasSubstr("has no initializers"));
  EXPECT_THAT(ErrorOf(ModelWith({k}, 10, {1, 8, 8}, 256)), HasSubstr("expected raw FLOAT data"));
  EXPECT_THAT(ErrorOf(ModelWith({k}, 1, {8, 8}, 256)), HasSubstr("expected raw FLOAT data"));
  EXPECT_THAT(ErrorOf(ModelWith({k}, 1, {1, 8, 8}, 255)), HasSubstr("expected raw FLOAT data"));
  EXPECT_THAT(ErrorOf(ModelWith({k}, 1, {std::uint64_t{1} << 60, 8, 8}, 256)),
              HasSubstr("expected raw FLOAT data"));
  EXPECT_THAT(ErrorOf(ModelWith({k}, 1, {1, 0, 0}, 0)), HasSubstr("expected raw FLOAT data"));
  EXPECT_THAT(ErrorOf(ModelWith({k, k}, 1, {1, 8, 8}, 256)), HasSubstr("comes twice"));
  EXPECT_THAT(ErrorOf(ModelWith({k}, 1, {1, 8, 8}, 256)),
              HasSubstr("no initializer 'layers.0.oscar_rotation_v'"));
}

}  // namespace
}  // namespace so4cal
