// SPDX-License-Identifier: Apache-2.0
#include "formats/table_safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "formats/atomic_file.h"
#include "formats/byte_writer.h"
#include "formats/safetensors.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleTable;
using testing::TempFolder;

SafetensorsTensor& Find(SafetensorsFile& file, const std::string& name) {
  const auto found =
      std::find_if(file.tensors.begin(), file.tensors.end(), [&](const auto& t) { return t.name == name; });
  if (found == file.tensors.end()) throw Error("no tensor " + name);
  return *found;
}

SafetensorsFile Exported(const RotationTable& table) {
  const TempFolder folder;
  WriteTableSafetensors(table, folder / "t");
  return ParseSafetensors(ReadFileBytes(folder / "t"), "t");
}

// A planted vector through both sides: with row vectors, y = (x - offset) @ R must be the z of the reference
// transform. float R: relative error of a dot product of 16 products below 16 * 2^-24.
TEST(TableSafetensors, RotationActsOnRowVectors) {
  const RotationTable table = SampleTable({.family = Family::kSo4, .num_heads = 3, .signs = true});
  SafetensorsFile file = Exported(table);
  const SafetensorsTensor& rotation = Find(file, "layers.2.v_rotation");
  EXPECT_EQ(rotation.dtype, "F32");
  EXPECT_EQ(rotation.shape, (std::vector<std::uint64_t>{3, 16, 16}));
  std::vector<double> x(16), z(16);
  for (std::size_t c = 0; c < 16; ++c) x[c] = 1.0 / static_cast<double>(c + 1);
  for (std::size_t h = 0; h < 3; ++h) {  // head 1 has chosen identity
    const HeadTransform t = table.FindLayer(2)->side(Side::kValue).heads[h].Effective();
    ForwardExact(t, x, z);
    for (std::size_t column = 0; column < 16; ++column) {
      double y = 0;
      for (std::size_t row = 0; row < 16; ++row)
        y += (x[row] - static_cast<double>(t.offset[row])) *
             static_cast<double>(
                 LoadLittleEndian<float>(rotation.bytes.data() + 4 * ((h * 16 + row) * 16 + column)));
      EXPECT_NEAR(y, z[column], 20 * 16 * 0x1p-24);
    }
  }
}

TEST(TableSafetensors, TensorsAndMetadata) {
  SafetensorsFile file = Exported(SampleTable({.rounding = Rounding::kFeedback, .signs = true}));
  EXPECT_EQ(Find(file, "layers.0.k_quaternions").dtype, "F64");
  EXPECT_EQ(Find(file, "layers.0.k_quaternions").shape, (std::vector<std::uint64_t>{3, 2, 4, 2, 4}));
  EXPECT_EQ(Find(file, "layers.0.k_offset").dtype, "F32");
  EXPECT_EQ(Find(file, "layers.0.k_offset").shape, (std::vector<std::uint64_t>{3, 16}));
  EXPECT_EQ(Find(file, "layers.0.k_metric").shape, (std::vector<std::uint64_t>{3, 16, 16}));
  EXPECT_EQ(Find(file, "layers.0.k_signs").dtype, "I8");
  EXPECT_EQ(Find(file, "layers.0.k_chosen").bytes, std::string("\2\0\2", 3));
  EXPECT_EQ(file.metadata.at("format"), "so4cal-safetensors");
  EXPECT_THAT(file.metadata.at("convention"), HasSubstr("y = (x - offset) @ rotation"));
  EXPECT_THAT(file.metadata.at("table"),
              AllOf(HasSubstr("\"strides\": [1, 4]"), HasSubstr("\"offset\": \"layers.0.k_offset\"")));
}

TEST(TableSafetensors, DenseTablesCarryTheMatrix) {
  SafetensorsFile file = Exported(SampleTable({.family = Family::kDense}));
  EXPECT_EQ(Find(file, "layers.0.k_dense").dtype, "F64");
  EXPECT_THROW(Find(file, "layers.0.k_quaternions"), Error);
}

// The error on reading a good file after `edit`; "" when it is accepted.
std::string ErrorAfter(const std::function<void(SafetensorsFile&)>& edit) {
  const TempFolder folder;
  SafetensorsFile file = Exported(SampleTable({.num_heads = 2, .layers = {0}}));
  edit(file);
  WriteBytesAtomically(folder / "bad", SerializeSafetensors(file, "bad"));
  try {
    ReadTableSafetensors(folder / "bad", {});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TableSafetensors, EveryMissingWrongOrExtraTensorIsRefused) {
  EXPECT_EQ(ErrorAfter([](SafetensorsFile&) {}), "");
  const SafetensorsFile good = Exported(SampleTable({.num_heads = 2, .layers = {0}}));
  for (std::size_t i = 0; i < good.tensors.size(); ++i) {
    const std::string name = "tensor '" + good.tensors[i].name + "'";
    EXPECT_THAT(ErrorAfter([&](SafetensorsFile& f) {
                  f.tensors.erase(f.tensors.begin() + static_cast<std::ptrdiff_t>(i));
                }),
                HasSubstr(name + " is missing"));
    EXPECT_THAT(ErrorAfter([&](SafetensorsFile& f) { f.tensors[i].shape.push_back(1); }),
                HasSubstr(name + " is "));
    EXPECT_THAT(ErrorAfter([&](SafetensorsFile& f) {
                  f.tensors[i].dtype = f.tensors[i].dtype == "F32"   ? "I32"
                                       : f.tensors[i].dtype == "F64" ? "I64"
                                                                     : "BOOL";
                }),
                HasSubstr(name + " is "));
  }
  EXPECT_THAT(ErrorAfter([](SafetensorsFile& f) {
                f.tensors.push_back({"more", "U8", {1}, "x"});
              }),
              HasSubstr("tensor 'more' does not belong"));
}

TEST(TableSafetensors, RotationMustFitItsQuaternions) {
  const auto edit = [](SafetensorsFile& f) {
    std::string& bytes = Find(f, "layers.0.k_rotation").bytes;
    std::string changed;
    AppendLittleEndian(changed, LoadLittleEndian<float>(bytes.data() + 4 * 300) + 1e-4F);
    bytes.replace(4 * 300, 4, changed);
  };
  EXPECT_THAT(ErrorAfter(edit), HasSubstr("tensor 'layers.0.k_rotation', head 1: entry 44"));
  EXPECT_THAT(ErrorAfter([](SafetensorsFile& f) { Find(f, "layers.0.v_chosen").bytes[0] = 1; }),
              HasSubstr("'layers.0.v_chosen' differs"));
}

// Without so4cal's metadata it is a file of rotations by another tool: the same maps, the default codec.
TEST(TableSafetensors, OtherSafetensorsFilesAreReadForTheirRotations) {
  const TempFolder folder;
  const RotationTable table = SampleTable({.num_heads = 2, .layers = {0}});
  SafetensorsFile file = Exported(table);
  file.metadata.clear();
  WriteBytesAtomically(folder / "other", SerializeSafetensors(file, "other"));
  const RotationTable read = ReadTableSafetensors(folder / "other", {});
  EXPECT_EQ(ToDense(read)[0].side(Side::kKey).rotations, ToDense(table)[0].side(Side::kKey).rotations);
  EXPECT_EQ(read.layers[0].side(Side::kKey).codec.grid, GridKind::kLloyd);
  EXPECT_TRUE(read.dumps.empty());
}

TEST(TableSafetensors, DamagedMetadataIsRefused) {
  EXPECT_THAT(ErrorAfter([](SafetensorsFile& f) { f.metadata["table"] = "{}"; }),
              HasSubstr("not a rotation table"));
  EXPECT_THAT(ErrorAfter([](SafetensorsFile& f) { f.metadata.erase("table"); }), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace so4cal
