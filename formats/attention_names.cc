// SPDX-License-Identifier: Apache-2.0
#include "formats/attention_names.h"

#include <charconv>

namespace so4cal {
namespace {

// Norms of queries and keys act before the cache on other rows; sinks are logits; inv_freq is of RoPE.
constexpr std::string_view kTransformersParts[] = {
    "q_proj.weight", "q_proj.bias",   "k_proj.weight", "k_proj.bias",   "v_proj.weight",
    "v_proj.bias",   "o_proj.weight", "o_proj.bias",   "q_norm.weight", "k_norm.weight",
    "q_norm.bias",   "k_norm.bias",   "sinks",         "sinks.weight",  "rotary_emb.inv_freq"};
// attn_norm stands before the projections, attn_output_norm and attn_post_norm behind all of attention.
// attn_k_rot acts on keys alone.
constexpr std::string_view kGgufParts[] = {"attn_q.weight",
                                           "attn_q.bias",
                                           "attn_k.weight",
                                           "attn_k.bias",
                                           "attn_v.weight",
                                           "attn_v.bias",
                                           "attn_output.weight",
                                           "attn_output.bias",
                                           "attn_norm.weight",
                                           "attn_norm.bias",
                                           "attn_norm_2.weight",
                                           "attn_norm_2.bias",
                                           "attn_q_norm.weight",
                                           "attn_k_norm.weight",
                                           "attn_q_norm.bias",
                                           "attn_k_norm.bias",
                                           "attn_sinks",
                                           "attn_sinks.weight",
                                           "attn_rot_embd.weight",
                                           "attn_rot_embd",
                                           "attn_k_rot.weight",
                                           "attn_output_norm.weight",
                                           "attn_output_norm.bias",
                                           "attn_post_norm.weight"};

constexpr std::string_view kGgufAttention = "attn_";

}  // namespace

std::string AttentionNaming::Example(int layer) const {
  return std::string(before) + std::to_string(layer) + std::string(after) + o + ".weight";
}

const AttentionNaming& NamingOf(ModelKind kind) {
  static const AttentionNaming transformers{"q_proj",           "k_proj",  "v_proj",      "o_proj",
                                            kTransformersParts, "layers.", ".self_attn.", true};
  static const AttentionNaming gguf{"attn_q",   "attn_k", "attn_v", "attn_output",
                                    kGgufParts, "blk.",   ".",      false};
  return kind == ModelKind::kGguf ? gguf : transformers;
}

std::optional<AttentionName> ParseAttentionName(const AttentionNaming& naming, std::string_view name) {
  for (std::size_t at = name.find(naming.before); at != std::string_view::npos;
       at = name.find(naming.before, at + 1)) {
    if (at > 0 && (!naming.any_prefix || name[at - 1] != '.')) continue;
    AttentionName found{std::string(name.substr(0, at)), 0, {}};
    const char *digits = name.data() + at + naming.before.size(), *end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(digits, end, found.layer);
    const std::string_view behind(rest, static_cast<std::size_t>(end - rest));
    if (error != std::errc() || *digits == '-' || !behind.starts_with(naming.after)) continue;
    found.part = behind.substr(naming.after.size());
    if (naming.any_prefix || found.part.starts_with(kGgufAttention)) return found;
  }
  return {};
}

}  // namespace so4cal
