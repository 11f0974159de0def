// SPDX-License-Identifier: Apache-2.0
#include "formats/dense_safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SafetensorsTensor Tensor(const std::string& name, const std::string& dtype, std::vector<std::uint64_t> shape,
                         const std::string& bytes) {
  return {name, dtype, std::move(shape), bytes};
}

// A bf16 pattern of 1 at every place.
std::string Ones(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += "\x80\x3f";
  return bytes;
}

SafetensorsFile Good() {
  return {{},
          {Tensor("model.layers.3.self_attn.k_rotation", "BF16", {2, 8, 8}, Ones(128)),
           Tensor("model.layers.3.self_attn.v_rotation", "BF16", {8, 8}, Ones(64)),
           Tensor("model.layers.3.self_attn.k_offset", "BF16", {2, 8}, Ones(16)),
           Tensor("model.embed.weight", "I8", {1}, "x"), Tensor("my_layers.3.k_rotation", "I8", {1}, "x")}};
}

std::string ErrorAfter(const std::function<void(SafetensorsFile&)>& edit) {
  SafetensorsFile file = Good();
  edit(file);
  try {
    DenseFromSafetensors(file, "f");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(DenseSafetensors, FindsRotationsUnderAnyPrefix) {
  const auto layers = DenseFromSafetensors(Good(), "f");
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].layer, 3);
  EXPECT_EQ(layers[0].side(Side::kKey).head_dim, 8);
  EXPECT_EQ(layers[0].side(Side::kKey).rotations.size(), 2U);
  EXPECT_EQ(layers[0].side(Side::kValue).rotations.size(), 1U);
  EXPECT_EQ(layers[0].side(Side::kKey).offsets.size(), 2U);
  EXPECT_THAT(layers[0].side(Side::kKey).offsets[0], ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(DenseSafetensors, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(ErrorAfter([](auto& f) { f.tensors.clear(); }),
              HasSubstr("has no tensors layers.N.k_rotation"));
  EXPECT_THAT(ErrorAfter([](auto& f) { f.tensors.erase(f.tensors.begin() + 1); }),
              HasSubstr("no v_rotation"));
  EXPECT_THAT(ErrorAfter([](auto& f) { f.tensors[0].dtype = "I16"; }), HasSubstr("has the type I16"));
  EXPECT_THAT(ErrorAfter([](auto& f) { f.tensors[0].shape = {128}; }), HasSubstr("[H, d, d] or [d, d]"));
  EXPECT_THAT(ErrorAfter([](auto& f) { f.tensors[0].shape = {2, 4, 16}; }), HasSubstr("not square"));
  EXPECT_THAT(ErrorAfter([](auto& f) {
                f.tensors[0].shape = {2, 0, 0}, f.tensors[0].bytes = "";
              }),
              HasSubstr("empty"));
  EXPECT_THAT(ErrorAfter([](auto& f) { f.tensors[1].name = "x.layers.3.k_rotation"; }),
              HasSubstr("came before"));
}

}  // namespace
}  // namespace so4cal
