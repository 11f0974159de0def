// SPDX-License-Identifier: Apache-2.0
#include "formats/value_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "formats/attention_names.h"
#include "lib/error.h"

namespace so4cal {
namespace {

// Why a tensor of a layer's attention that is on no list of what may be there keeps it from being folded.
struct Blocker {
  std::string_view part;
  const char* reason;
};
constexpr char kFused[] =
    "queries, keys and values are one fused projection: split it into q_proj, k_proj and v_proj first";
constexpr char kLatent[] =
    "multi-head latent attention: the cache holds a latent vector that keys and values share, and no values";
constexpr char kQuantized[] =
    "belongs to a quantized weight: fold the f32, f16 or bf16 model, then quantize the result";
constexpr char kBetween[] =
    "stands between attention and the output projection: a rotation does not pass through it";
constexpr Blocker kBlockers[] = {
    {"lora_", "is an adapter: merge it into the weights first"},
    {"kv_a_", kLatent},
    {"kv_b", kLatent},
    {"attn_k_b", kLatent},
    {"attn_v_b.", kLatent},
    {"qkv", kFused},
    {"query_key_value", kFused},
    {"v_rot", "is a value rotation already, values would be rotated twice: fold the model without it"},
    {"v_norm", "is a learned norm between v_proj and the cache: a rotation does not pass through its gains"},
    {"scale", kQuantized},
    {"qweight", kQuantized},
    {"qzeros", kQuantized},
    {"g_idx", kQuantized},
    {"absmax", kQuantized},
    {"quant", kQuantized},
    {"sub_norm", kBetween},
    {"gate", kBetween},
    {"g_proj", kBetween},
};

Error Refusal(const std::string& name, const std::string& reason) {
  return Error("tensor '" + name + "' " + reason);
}

void CheckParts(const std::map<std::string, const ModelTensor*>& parts, const AttentionNaming& naming) {
  for (const auto& [part, tensor] : parts) {
    if (std::count(naming.allowed.begin(), naming.allowed.end(), part) > 0) continue;
    for (const Blocker& blocker : kBlockers)
      if (part.find(blocker.part) != std::string::npos) throw Refusal(tensor->name, blocker.reason);
    throw Refusal(tensor->name, "is none that fold knows: whether a rotation passes through it is unknown");
  }
}

WeightTensor Weight(const ModelTensor& tensor, std::size_t dimensions) {
  const std::optional<ElementType> type = ElementTypeOf(tensor.type);
  if (!type)
    throw Refusal(tensor.name, "is " + tensor.type +
                                   ", expected F32, F16, BF16 or F64: fold the model before it is quantized");
  if (tensor.shape.size() != dimensions)
    throw Refusal(tensor.name, "has " + std::to_string(tensor.shape.size()) + " dimensions, expected " +
                                   std::to_string(dimensions));
  return {tensor.name, tensor.file, *type, tensor.shape[0], dimensions == 2 ? tensor.shape[1] : 1,
          tensor.begin};
}

// Queries and keys have Hq * D and Hkv * D rows, values and outputs Hkv * Dv rows and Hq * Dv columns. With a
// gate of the output in q_proj its rows are twice as many.
void CheckQueryRows(const ModelTensor& q, const ModelTensor& k, const ValueWeights& found) {
  const std::uint64_t q_rows = q.shape.empty() ? 0 : q.shape[0], k_rows = k.shape.empty() ? 0 : k.shape[0];
  const auto product = [](std::uint64_t a, std::uint64_t b) { return static_cast<unsigned __int128>(a) * b; };
  if (product(q_rows, found.v.rows) != product(found.o.columns, k_rows))
    throw Refusal(q.name,
                  "has " + std::to_string(q_rows) + " rows beside " + std::to_string(k_rows) + " of keys, " +
                      std::to_string(found.v.rows) + " of values and " + std::to_string(found.o.columns) +
                      " columns of the output projection: a gate of the output, or no plain attention");
}

void CheckBias(const std::optional<WeightTensor>& bias, const WeightTensor& weight) {
  if (bias && bias->rows != weight.rows)
    throw Refusal(bias->name, "has " + std::to_string(bias->rows) + " values, expected " +
                                  std::to_string(weight.rows) + " as '" + weight.name + "' has rows");
}

std::string JoinNames(std::span<const std::string> names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + ("'" + name + "'");
  return all;
}

// A fused projection outside any known attention, which says why no layer was found.
std::string FusedHint(const ModelFiles& model) {
  for (const ModelTensor& tensor : model.tensors)
    for (const std::string_view part : {"qkv", "query_key_value", "c_attn", "Wqkv", "in_proj_"})
      if (tensor.name.find(part) != std::string::npos) return "; in '" + tensor.name + "' " + kFused;
  return "";
}

// The tensors of the layer's attention by their part. A model within the model (a vision tower, a draft)
// counts as one where it has the same output projection.
std::map<std::string, const ModelTensor*> LayerParts(const ModelFiles& model, const AttentionNaming& naming,
                                                     int layer) {
  std::map<std::string, std::map<std::string, const ModelTensor*>> by_prefix;
  for (const ModelTensor& tensor : model.tensors)
    if (const auto name = ParseAttentionName(naming, tensor.name); name && name->layer == layer)
      by_prefix[name->prefix][name->part] = &tensor;
  std::erase_if(by_prefix, [&](const auto& group) { return !group.second.contains(naming.o + ".weight"); });
  if (by_prefix.empty())
    throw Error("the model has no tensor '" + naming.Example(layer) + "', but the table has layer " +
                std::to_string(layer) + ": is it the model of the table?" + FusedHint(model));
  if (by_prefix.size() == 1) return by_prefix.begin()->second;
  std::vector<std::string> names;
  for (const auto& [prefix, parts] : by_prefix) names.push_back(parts.at(naming.o + ".weight")->name);
  throw Error("layer " + std::to_string(layer) + " is there " + std::to_string(names.size()) +
              " times: " + JoinNames(names) + ": save the language model without the others");
}

}  // namespace

std::vector<int> AttentionLayers(const ModelFiles& model) {
  const AttentionNaming& naming = NamingOf(model.kind);
  std::set<int> layers;
  for (const ModelTensor& tensor : model.tensors)
    if (const auto name = ParseAttentionName(naming, tensor.name); name && name->part == naming.o + ".weight")
      layers.insert(name->layer);
  return {layers.begin(), layers.end()};
}

ValueWeights FindValueWeights(const ModelFiles& model, int layer) {
  const AttentionNaming& naming = NamingOf(model.kind);
  const std::map<std::string, const ModelTensor*> parts = LayerParts(model, naming, layer);
  CheckParts(parts, naming);
  const auto tensor = [&](const std::string& role) -> const ModelTensor& {
    if (!parts.contains(role + ".weight"))
      throw Refusal(
          parts.at(naming.o + ".weight")->name,
          "has no " + role + ".weight beside it: the layer uses keys as values, or another layer's cache");
    return *parts.at(role + ".weight");
  };
  const auto bias = [&](const std::string& role) -> std::optional<WeightTensor> {
    if (!parts.contains(role + ".bias")) return {};
    return Weight(*parts.at(role + ".bias"), 1);
  };
  ValueWeights found{Weight(tensor(naming.v), 2), Weight(tensor(naming.o), 2), bias(naming.v),
                     bias(naming.o)};
  found.sinks = std::any_of(parts.begin(), parts.end(),
                            [](const auto& part) { return part.first.find("sinks") != std::string::npos; });
  CheckBias(found.v_bias, found.v);
  CheckBias(found.o_bias, found.o);
  CheckQueryRows(tensor(naming.q), tensor(naming.k), found);
  return found;
}

}  // namespace so4cal
