// SPDX-License-Identifier: Apache-2.0
#include "formats/dense_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"
#include "lib/half.h"
#include "tests/support/sample_table.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;
using testing::SampleTable;

std::string ErrorOf(std::vector<DenseLayer> layers, const std::string& provenance = "") {
  try {
    TableFromDense(std::move(layers), provenance, {}, "file");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::vector<DenseLayer> Rounded(std::vector<DenseLayer> layers) {
  for (DenseLayer& layer : layers)
    for (DenseSide& side : layer.sides)
      for (auto& rotation : side.rotations)
        for (float& v : rotation) v = FloatFromBfloat(BfloatFromFloat(v));
  return layers;
}

TEST(DenseTable, RowsTimesRotationIsTheMap) {
  const RotationTable table = SampleTable();
  const HeadTable& head = table.layers[0].side(Side::kKey).heads[2];
  const std::vector<double> u = DenseMatrix(head.Effective());
  const std::vector<float> r = RowRotation(head);
  EXPECT_EQ(r[3 * 16 + 5], static_cast<float>(u[5 * 16 + 3]));
  EXPECT_EQ(ToDense(table)[0].side(Side::kKey).rotations[2], r);
}

TEST(DenseTable, StructureIsRecognizedAndOtherwiseKept) {
  for (const auto& [family, expected] : {std::pair{Family::kSo4, Family::kSo4},
                                         {Family::kLeft, Family::kSo4},
                                         {Family::kPlanar, Family::kSo4},
                                         {Family::kButterfly, Family::kDense},
                                         {Family::kDense, Family::kDense},
                                         {Family::kNone, Family::kSo4}}) {
    const RotationTable table = SampleTable({.family = family});
    const RotationTable read = TableFromDense(ToDense(table), "", {}, "file");
    EXPECT_EQ(read.layers[0].side(Side::kKey).family, expected) << static_cast<int>(family);
  }
  // One head with the identity among fitted ones, as the guard leaves it.
  const RotationTable read = TableFromDense(ToDense(SampleTable({.family = Family::kSo4})), "", {}, "file");
  EXPECT_EQ(read.layers[0].side(Side::kKey).heads[1].chosen, Chosen::kIdentity);
  EXPECT_TRUE(read.layers[0].side(Side::kKey).heads[0].transform.hadamard);
}

TEST(DenseTable, ProvenanceKeepsModelAndCodec) {
  const RotationTable table = SampleTable({.bits = 4, .grid = GridKind::kFull, .scale = ScaleRule::kAbsmax});
  const RotationTable read = TableFromDense(ToDense(table), DenseProvenance(table, "file"), {}, "file");
  EXPECT_EQ(read.layers[1].side(Side::kValue).codec, table.layers[1].side(Side::kValue).codec);
  EXPECT_EQ(read.model, table.model);
  EXPECT_EQ(read.num_model_layers, table.num_model_layers);
  EXPECT_THAT(ErrorOf(ToDense(table), "{\"tool_version\": 1}"), HasSubstr("provenance in it is damaged"));
  EXPECT_THAT(ErrorOf(ToDense(table), "{"), HasSubstr("file: provenance"));
}

TEST(DenseTable, CodecOfFilesThatSayNothing) {
  const RotationTable table = SampleTable({.head_dim = 80, .value_dim = 64, .block = 16});
  const RotationTable read = TableFromDense(ToDense(table), "", {}, "file");
  EXPECT_EQ(read.layers[0].side(Side::kKey).codec.block,
            16);  // the largest power of two <= 32 that divides 80
  EXPECT_EQ(read.layers[0].side(Side::kValue).codec.block, 32);
  const auto two_bits = [](Side, int head_dim) { return CodecSpec{head_dim, 2, 8, {}, {}}; };
  EXPECT_EQ(TableFromDense(ToDense(table), "", {.codec = two_bits}, "file").layers[0].sides[0].codec.bits, 2);
}

// bf16 entries are off by up to 2^-9 of themselves: too far for a table, near enough to know which rotation
// is meant.
TEST(DenseTable, SixteenBitMatricesAreMadeOrthogonalAndCounted) {
  const RotationTable table = SampleTable({.family = Family::kDense, .num_heads = 2});
  const RotationTable read = TableFromDense(Rounded(ToDense(table)), "", {}, "file");
  EXPECT_EQ(read.TotalCounts().at("heads made orthogonal on import"), 8U);
  const auto before = ToDense(table), after = ToDense(read);
  for (std::size_t i = 0; i < 256; ++i)
    EXPECT_NEAR(after[0].sides[0].rotations[0][i], before[0].sides[0].rotations[0][i], 4e-3);
  EXPECT_TRUE(TableFromDense(ToDense(table), "", {}, "file").TotalCounts().empty());
}

TEST(DenseTable, OneRotationPerLayerIsRepeated) {
  std::vector<DenseLayer> layers = ToDense(SampleTable());
  layers[0].sides[0].rotations.resize(1);
  layers[0].sides[0].offsets.resize(1);
  const RotationTable read = TableFromDense(layers, "", {}, "file");
  EXPECT_EQ(read.layers[0].sides[0].heads.size(), 3U);  // as many as values have
  EXPECT_EQ(read.layers[0].sides[0].heads[2], read.layers[0].sides[0].heads[0]);
  EXPECT_TRUE(read.layers[0].sides[0].shared);
}

TEST(DenseTable, WhatIsNoRotationIsRefused) {
  std::vector<DenseLayer> layers = ToDense(SampleTable());
  layers[0].sides[1].rotations[2][0] += 0.1F;
  EXPECT_THAT(ErrorOf(layers), HasSubstr("file: layer 0 v head 2: is not orthogonal"));
  layers = ToDense(SampleTable());
  layers[0].sides[0].offsets.resize(2);
  EXPECT_THAT(ErrorOf(layers), HasSubstr("offsets for 2 heads and rotations for 3"));
  layers = ToDense(SampleTable());
  layers[0].sides[0].offsets[0][0] = NAN;
  EXPECT_THAT(ErrorOf(layers), HasSubstr("NaN"));
  layers = ToDense(SampleTable());
  layers[1].layer = 0;
  EXPECT_THAT(ErrorOf(layers), HasSubstr("ascending layer ids"));
}

}  // namespace
}  // namespace so4cal
