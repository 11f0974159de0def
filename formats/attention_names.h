// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/model_files.h"

namespace so4cal {

// How a kind of container calls the tensors of attention.
struct AttentionNaming {
  std::string q, k, v, o;  // projections; ".weight" or ".bias" follows
  std::span<const std::string_view>
      allowed;                           // parts that a value rotation leaves alone, projections included
  std::string_view before, after;        // what stands around the layer's number
  bool any_prefix;                       // anything may stand before that, up to a dot
  std::string Example(int layer) const;  // the name of the output projection
};
const AttentionNaming& NamingOf(ModelKind kind);

// "model.layers.3.self_attn.v_proj.weight" -> "model.", 3, "v_proj.weight"; "blk.3.attn_v.bias" -> "", 3,
// "attn_v.bias".
struct AttentionName {
  std::string prefix;
  int layer = 0;
  std::string part;
};
// Nothing for tensors outside a layer's attention.
std::optional<AttentionName> ParseAttentionName(const AttentionNaming& naming, std::string_view name);

}  // namespace so4cal
