// SPDX-License-Identifier: Apache-2.0
#include "formats/table_oscar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "formats/torch_file.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SampleOptions;
using testing::SampleTable;
using testing::TempFolder;

// Keys with offsets, values without: what OSCAR can carry.
RotationTable OscarTable(const SampleOptions& options = {}) {
  RotationTable table = SampleTable(options);
  for (LayerTable& layer : table.layers)
    for (HeadTable& head : layer.side(Side::kValue).heads) head.transform.offset.clear();
  return table;
}

// A file of another tool: `write` puts the layers' key and value pairs into it.
std::string OtherFile(const std::function<void(TorchWriter&)>& write) {
  TorchWriter file;
  file.pickle().BeginDict();
  file.pickle().Text("layers");
  file.pickle().BeginDict();
  write(file);
  file.pickle().EndDict();
  file.pickle().EndDict();
  return std::move(file).Finish("archive", "other");
}

void IdentityLayer(TorchWriter& file, std::vector<std::uint64_t> shape, float diagonal,
                   const char* companion = "") {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) count *= extent;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = i % (shape.back() * shape.back()) % (shape.back() + 1) == 0 ? diagonal : 0;
  file.pickle().BeginDict();
  file.pickle().Text("rotation");
  file.Tensor(shape, values);
  if (*companion) {
    file.pickle().Text(companion);
    file.Tensor(shape, values);
  }
  file.pickle().EndDict();
}

std::string ErrorOf(const std::string& k, const std::string& v) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "k_rotation.pt", k);
  WriteBytesAtomically(folder / "v_rotation.pt", v);
  try {
    ReadTableOscar(folder.path(), {});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TableOscar, HoldsWhatTheLoaderLooksFor) {
  const TempFolder folder;
  const RotationTable table = OscarTable({.layers = {3, 7}});
  WriteTableOscar(table, folder / "out");
  for (const Side s : kSides) {
    const TorchFile file(ReadFileBytes(folder / (std::string("out/") + SideName(s) + "_rotation.pt")), "f");
    EXPECT_EQ(file.root().Find("format_version")->integer, 2);
    EXPECT_TRUE(file.root().Find("calibration")->Find("post_rope")->integer);
    const auto& layers = file.root().Find("layers")->items;
    ASSERT_EQ(layers.size(), 4U);
    EXPECT_EQ(layers[0]->integer, 3);  // global layer ids, as integers
    EXPECT_EQ(layers[2]->integer, 7);
    const PickleValue& layer = *layers[3];
    EXPECT_EQ(layer.Find("layer_id")->integer, 7);
    EXPECT_THAT(file.Tensor(*layer.Find("rotation"), "r").shape, ElementsAre(3, 16, 16));
    EXPECT_EQ(layer.Find("k_mean") != nullptr, s == Side::kKey);
  }
}

TEST(TableOscar, KeepsOffsetsCodecAndModel) {
  const TempFolder folder;
  const RotationTable table = OscarTable({.family = Family::kSo4, .bits = 2, .grid = GridKind::kSymmetric});
  WriteTableOscar(table, folder / "out");
  const RotationTable read = ReadTableOscar(folder / "out", {});
  EXPECT_EQ(read.model, table.model);
  EXPECT_EQ(read.layers[0].side(Side::kKey).codec, table.layers[0].side(Side::kKey).codec);
  EXPECT_EQ(read.layers[0].side(Side::kKey).heads[2].transform.offset,
            table.layers[0].side(Side::kKey).heads[2].transform.offset);
  EXPECT_EQ(read.layers[0].side(Side::kKey).family, Family::kSo4);  // recognized
}

TEST(TableOscar, ValueOffsetsAreRefused) {
  const TempFolder folder;
  try {
    WriteTableOscar(SampleTable(), folder / "out");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--offset k=mean,v=none"));
  }
  EXPECT_EQ(folder.num_entries(), 0U);
}

// All layers or none have k_mean: the loader's rule.
TEST(TableOscar, OneLayerWithoutOffsetsGetsZeros) {
  const TempFolder folder;
  RotationTable table = OscarTable();
  for (HeadTable& head : table.layers[1].side(Side::kKey).heads) head.transform.offset.clear();
  WriteTableOscar(table, folder / "out");
  const TorchFile file(ReadFileBytes(folder / "out/k_rotation.pt"), "f");
  const PickleValue* mean = file.root().Find("layers")->items[3]->Find("k_mean");
  ASSERT_NE(mean, nullptr);
  EXPECT_THAT(file.Tensor(*mean, "k_mean").values, ::testing::Each(0));
}

TEST(TableOscar, ReadsOneRotationPerLayerUnderTextKeys) {
  const TempFolder folder;
  const std::string bytes = OtherFile([](TorchWriter& file) {
    file.pickle().Text("12");
    IdentityLayer(file, {8, 8}, 1);
  });
  WriteBytesAtomically(folder / "k_rotation_qqt_r_h_pbr.pt", bytes);
  WriteBytesAtomically(folder / "v_rotation_sst_r_h_pbr.pt", bytes);
  const RotationTable table = ReadTableOscar(folder.path(), {.codec = {}, .num_kv_heads = 5});
  EXPECT_EQ(table.layers[0].layer, 12);
  EXPECT_EQ(table.layers[0].side(Side::kValue).heads.size(), 5U);
}

TEST(TableOscar, WhatTheLoaderRefusesIsRefused) {
  const auto one = [](std::vector<std::uint64_t> shape, float diagonal = 1, const char* companion = "") {
    return OtherFile([&](TorchWriter& file) {
      file.pickle().Integer(0);
      IdentityLayer(file, shape, diagonal, companion);
    });
  };
  const std::string good = one({2, 8, 8});
  EXPECT_EQ(ErrorOf(good, good), "");
  EXPECT_EQ(ErrorOf(one({2, 8, 8}, 1.002F), good), "");  // within the loader's 5e-3: made orthogonal
  EXPECT_THAT(ErrorOf(one({2, 8, 8}, 1.003F), good), HasSubstr("not orthogonal"));
  EXPECT_THAT(ErrorOf(one({2, 8, 8}, NAN), good), HasSubstr("not orthogonal"));
  EXPECT_THAT(ErrorOf(one({2, 8, 16}), good), HasSubstr("not square"));
  EXPECT_THAT(ErrorOf(one({8}), good), HasSubstr("expected [d, d]"));
  EXPECT_THAT(ErrorOf(one({2, 8, 8}, 1, "q_rotation"), good), HasSubstr("q_rotation"));
  EXPECT_THAT(ErrorOf(good, OtherFile([](TorchWriter& file) {
                        file.pickle().Integer(1);
                        IdentityLayer(file, {2, 8, 8}, 1);
                      })),
              HasSubstr("in one of the two files only"));
  EXPECT_THAT(ErrorOf(OtherFile([](TorchWriter& file) {
                        file.pickle().Text("1x");
                        IdentityLayer(file, {2, 8, 8}, 1);
                      }),
                      good),
              HasSubstr("no layer number"));
}

}  // namespace
}  // namespace so4cal
