// SPDX-License-Identifier: Apache-2.0
#include "formats/value_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Four projections of a layer: 2 KV heads and 4 query heads of 8, 16 inputs and outputs.
ModelFiles Model(ModelKind kind = ModelKind::kSafetensors) {
  ModelFiles model;
  model.kind = kind;
  const bool gguf = kind == ModelKind::kGguf;
  const std::string before = gguf ? "blk.3.attn_" : "model.layers.3.self_attn.", after = gguf ? "" : "_proj";
  const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    model.tensors.push_back({before + name + ".weight", "F32", {rows, columns}, "f", model.tensors.size()});
  };
  add("q" + after, 32, 16);
  add("k" + after, 16, 16);
  add("v" + after, 16, 16);
  add(gguf ? "output" : "o_proj", 16, 32);
  return model;
}

std::string ErrorOf(const ModelFiles& model, int layer = 3) {
  try {
    FindValueWeights(model, layer);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ValueWeights, FindsThemUnderBothNamings) {
  for (const ModelKind kind : {ModelKind::kSafetensors, ModelKind::kGguf}) {
    const ModelFiles model = Model(kind);
    EXPECT_THAT(AttentionLayers(model), ElementsAre(3));
    const ValueWeights found = FindValueWeights(model, 3);
    EXPECT_EQ(found.v.name, model.tensors[2].name);
    EXPECT_EQ(found.o.name, model.tensors[3].name);
    EXPECT_EQ(found.v.begin, 2U);
    EXPECT_EQ(found.o.rows, 16U);
    EXPECT_EQ(found.o.columns, 32U);
    EXPECT_FALSE(found.v_bias || found.o_bias);
  }
}

TEST(ValueWeights, BiasesAreFoundAndHeldToTheirWeights) {
  ModelFiles model = Model();
  model.tensors.push_back({"model.layers.3.self_attn.v_proj.bias", "F16", {16}, "f", 9});
  EXPECT_EQ(FindValueWeights(model, 3).v_bias->type, ElementType::kF16);
  model.tensors.back().shape = {15};
  EXPECT_THAT(ErrorOf(model), HasSubstr("has 15 values, expected 16"));
}

TEST(ValueWeights, SinksAreSeen) {
  for (const ModelKind kind : {ModelKind::kSafetensors, ModelKind::kGguf}) {
    ModelFiles model = Model(kind);
    EXPECT_FALSE(FindValueWeights(model, 3).sinks);
    const bool gguf = kind == ModelKind::kGguf;
    model.tensors.push_back(
        {gguf ? "blk.3.attn_sinks.weight" : "model.layers.3.self_attn.sinks", "F32", {4}, "f", 9});
    EXPECT_TRUE(FindValueWeights(model, 3).sinks);
  }
}

// Values may be narrower than keys: 2 KV heads of 8 with keys and queries of 12.
TEST(ValueWeights, KeysOfAnotherSizeAreNoGate) {
  ModelFiles model = Model();
  model.tensors[0].shape = {48, 16};
  EXPECT_THAT(ErrorOf(model), HasSubstr("a gate of the output"));
  model.tensors[1].shape = {24, 16};
  EXPECT_EQ(ErrorOf(model), "");
}

// A vision tower whose output projection has another name is none of the model's layers.
TEST(ValueWeights, TowersBesideTheLanguageModel) {
  ModelFiles model = Model();
  model.tensors.push_back({"vision.layers.3.self_attn.v_proj.weight", "F32", {8, 8}, "f", 9});
  model.tensors.push_back({"vision.layers.3.self_attn.out_proj.weight", "F32", {8, 8}, "f", 9});
  EXPECT_EQ(ErrorOf(model), "");
  model.tensors.back().name = "vision.layers.3.self_attn.o_proj.weight";
  EXPECT_THAT(ErrorOf(model), HasSubstr("layer 3 is there 2 times: 'model.layers.3.self_attn.o_proj.weight', "
                                        "'vision.layers.3.self_attn.o_proj.weight'"));
}

TEST(ValueWeights, LayersThatTheModelLacks) {
  EXPECT_THAT(ErrorOf(Model(), 4), HasSubstr("no tensor 'layers.4.self_attn.o_proj.weight'"));
  EXPECT_THAT(ErrorOf(Model(ModelKind::kGguf), 4), HasSubstr("no tensor 'blk.4.attn_output.weight'"));
}

// Every part of attention that is not on the list keeps the layer from being folded, whatever it is called.
TEST(ValueWeights, UnknownPartsAreRefused) {
  for (const char* part :
       {"v_norm.weight", "x", "v_proj.weight_scale", "attn.q_proj.weight", "v_proj.weights", ""}) {
    ModelFiles model = Model();
    model.tensors.push_back({std::string("model.layers.3.self_attn.") + part, "F32", {1}, "f", 9});
    EXPECT_THAT(ErrorOf(model), HasSubstr("'" + model.tensors.back().name + "'")) << part;
  }
  ModelFiles model = Model();
  model.tensors.push_back({"model.layers.3.mlp.x", "F32", {1}, "f", 9});
  model.tensors.push_back({"model.layers.4.self_attn.x", "F32", {1}, "f", 9});
  EXPECT_EQ(ErrorOf(model), "");  // of another layer, or no attention
}

TEST(ValueWeights, QuantizedTypes) {
  for (const std::size_t i : {2U, 3U}) {
    ModelFiles model = Model(ModelKind::kGguf);
    model.tensors[i].type = "Q4_0";
    EXPECT_THAT(ErrorOf(model),
                HasSubstr("'" + model.tensors[i].name + "' is Q4_0, expected F32, F16, BF16 or F64"));
  }
  ModelFiles model = Model(ModelKind::kGguf);
  model.tensors[0].type = "Q4_0";  // queries are not folded
  EXPECT_EQ(ErrorOf(model), "");
}

}  // namespace
}  // namespace so4cal
