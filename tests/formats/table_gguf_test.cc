// SPDX-License-Identifier: Apache-2.0
#include "formats/table_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "formats/atomic_file.h"
#include "formats/byte_writer.h"
#include "formats/gguf.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;
using testing::SampleOptions;
using testing::SampleTable;
using testing::TempFolder;

RotationTable SharedTable() {
  return SampleTable({.offset = false, .shared = true});
}  // layers 0 and 2, d = 16

// A small model: keys, two tensors of which the last is no multiple of the alignment long.
GgufHeader Model(std::uint32_t num_layers = 3, std::uint32_t head_dim = 16) {
  GgufHeader header;
  header.keys =
      GgufTextKey("general.architecture", "llama") + GgufNumberKey("llama.block_count", num_layers) +
      GgufNumberKey("llama.attention.key_length", head_dim) +
      GgufNumberKey("llama.attention.value_length", head_dim) + GgufNumberKey("general.alignment", 64);
  header.num_keys = 5;
  header.alignment = 64;
  header.tensors = {{"token_embd.weight", {8, 2}, GgufTensor::kF32, 0},
                    {"output.weight", {5}, GgufTensor::kF32, 64}};
  return header;
}

std::string DataOf(const GgufHeader& header, const std::string& bytes, const GgufTensor& tensor) {
  return bytes.substr(header.data_begin + tensor.offset, GgufTensorBytes(tensor, ""));
}

std::string ErrorOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TableGguf, TensorsHoldUSoThatMulMatTurnsKeys) {
  const TempFolder folder;
  const RotationTable table = SharedTable();
  WriteTableGguf(table, folder / "t.gguf");
  const std::string bytes = ReadFileBytes(folder / "t.gguf");
  const GgufHeader header = ReadGgufHeader(folder / "t.gguf");
  ASSERT_EQ(header.tensors.size(), 4U);
  EXPECT_EQ(header.tensors[2].name, "blk.2.attn_k_rot.weight");
  const std::string data = DataOf(header, bytes, header.tensors[2]);
  const std::vector<double> u = DenseMatrix(table.layers[1].side(Side::kKey).heads[0].Effective());
  // ggml_mul_mat(A, x)_i = sum_j A[j + i * ne0] x_j: row i of U is contiguous.
  for (std::size_t i = 0; i < u.size(); ++i)
    EXPECT_EQ(LoadLittleEndian<float>(data.data() + 4 * i), static_cast<float>(u[i]));
}

TEST(TableGguf, WhatItCannotCarryIsRefused) {
  const TempFolder folder;
  EXPECT_THAT(ErrorOf([&] { WriteTableGguf(SampleTable({.offset = false}), folder / "t"); }),
              HasSubstr("fit with --share layer --offset none"));
  EXPECT_THAT(ErrorOf([&] { WriteTableGguf(SampleTable({.shared = true}), folder / "t"); }),
              HasSubstr("fit with --offset none"));
  EXPECT_EQ(folder.num_entries(), 0U);
}

TEST(TableGguf, MergeKeepsEveryKeyAndTensor) {
  const TempFolder folder;
  const GgufHeader model = Model();
  const std::string first(64, 'a'), second(20, 'b');
  WriteBytesAtomically(folder / "m.gguf", SerializeGgufHeader(model) + first + second);
  MergeIntoGguf(SharedTable(), folder / "m.gguf", folder / "out.gguf");
  const std::string bytes = ReadFileBytes(folder / "out.gguf");
  const GgufHeader merged = ReadGgufHeader(folder / "out.gguf");
  EXPECT_EQ(merged.keys.substr(0, model.keys.size()), model.keys);
  ASSERT_EQ(merged.tensors.size(), 6U);
  EXPECT_EQ(DataOf(merged, bytes, merged.tensors[0]), first);
  EXPECT_EQ(DataOf(merged, bytes, merged.tensors[1]), second);
  EXPECT_EQ(merged.tensors[2].offset, 128U);
  const RotationTable read = ReadTableGguf(folder / "out.gguf", {});
  EXPECT_EQ(ToDense(read)[1].side(Side::kValue).rotations,
            ToDense(SharedTable())[1].side(Side::kValue).rotations);
  EXPECT_EQ(read.layers[1].side(Side::kKey).heads.size(), 3U);
}

TEST(TableGguf, MergeRefusesOtherModels) {
  const TempFolder folder;
  const auto merge = [&](const GgufHeader& model) {
    WriteBytesAtomically(folder / "m.gguf", SerializeGgufHeader(model) + std::string(84, 'a'));
    return ErrorOf([&] { MergeIntoGguf(SharedTable(), folder / "m.gguf", folder / "out.gguf"); });
  };
  EXPECT_THAT(merge(Model(2)), HasSubstr("has 2 layers, and the table has layer 2"));
  EXPECT_THAT(merge(Model(3, 64)), HasSubstr("heads have 64 channels on side k, layer 0 of the table 16"));
  GgufHeader twice = Model();
  twice.tensors[0].name = "blk.0.attn_v_rot.weight";
  EXPECT_THAT(merge(twice), HasSubstr("has rotations already"));
  GgufHeader adapter;
  adapter.tensors = Model().tensors;
  EXPECT_THAT(merge(adapter), HasSubstr("is no model"));
  EXPECT_EQ(folder.num_entries(), 1U);
}

// A model with a hole of 5 GiB, as no file in a test could be otherwise: rotations start behind it.
TEST(TableGguf, MergesBehindFourGigabytes) {
  if (!std::getenv("SO4CAL_LONG")) GTEST_SKIP() << "SKIPPED: copies 5 GiB; run with --long";
  const TempFolder folder;
  GgufHeader model = Model();
  model.tensors[0].extents = {std::uint64_t{5} << 28};
  model.tensors[1].offset = std::uint64_t{5} << 30;
  std::ofstream(folder / "m.gguf", std::ios::binary) << SerializeGgufHeader(model);
  std::filesystem::resize_file(folder / "m.gguf",
                               SerializeGgufHeader(model).size() + model.tensors[1].offset + 20);
  MergeIntoGguf(SharedTable(), folder / "m.gguf", folder / "out.gguf");
  const GgufHeader merged = ReadGgufHeader(folder / "out.gguf");
  EXPECT_EQ(merged.tensors[2].offset, (std::uint64_t{5} << 30) + 64);
  EXPECT_EQ(ToDense(ReadTableGguf(folder / "out.gguf", {}))[0].side(Side::kKey).rotations,
            ToDense(SharedTable())[0].side(Side::kKey).rotations);
}

}  // namespace
}  // namespace so4cal
