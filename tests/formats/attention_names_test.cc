// SPDX-License-Identifier: Apache-2.0
#include "formats/attention_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace so4cal {
namespace {

std::string Parsed(ModelKind kind, std::string_view name) {
  const auto found = ParseAttentionName(NamingOf(kind), name);
  return found ? found->prefix + "|" + std::to_string(found->layer) + "|" + found->part : "";
}

TEST(AttentionNames, OfTransformers) {
  const auto parsed = [](std::string_view name) { return Parsed(ModelKind::kSafetensors, name); };
  EXPECT_EQ(parsed("model.layers.3.self_attn.v_proj.weight"), "model.|3|v_proj.weight");
  EXPECT_EQ(parsed("layers.12.self_attn.o_proj.bias"), "|12|o_proj.bias");
  EXPECT_EQ(parsed("a.layers.1.b.layers.2.self_attn.sinks"), "a.layers.1.b.|2|sinks");
  for (const char* other :
       {"model.layers.3.mlp.up_proj.weight", "model.layers.3.self_attn",
        "model.sublayers.3.self_attn.v_proj.weight", "model.layers.self_attn.v_proj.weight",
        "model.layers.-3.self_attn.v_proj.weight", "model.layers.3.cross_attn.v_proj.weight",
        "model.layers.99999999999.self_attn.v_proj.weight", "layers.", "", "blk.3.attn_v.weight"})
    EXPECT_EQ(parsed(other), "") << other;
}

TEST(AttentionNames, OfGguf) {
  const auto parsed = [](std::string_view name) { return Parsed(ModelKind::kGguf, name); };
  EXPECT_EQ(parsed("blk.3.attn_v.weight"), "|3|attn_v.weight");
  EXPECT_EQ(parsed("blk.12.attn_output.bias"), "|12|attn_output.bias");
  for (const char* other :
       {"v.blk.3.attn_v.weight", "blk.3.ffn_up.weight", "blk.attn_v.weight", "output.weight"})
    EXPECT_EQ(parsed(other), "") << other;
}

TEST(AttentionNames, Examples) {
  EXPECT_EQ(NamingOf(ModelKind::kSafetensors).Example(3), "layers.3.self_attn.o_proj.weight");
  EXPECT_EQ(NamingOf(ModelKind::kGguf).Example(3), "blk.3.attn_output.weight");
}

}  // namespace
}  // namespace so4cal
