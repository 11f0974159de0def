// SPDX-License-Identifier: Apache-2.0
#include "formats/model_config.h"

#include <string_view>

#include "formats/atomic_file.h"
#include "formats/json_text.h"
#include "formats/model_files.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

// An entry of config.json that is set, whatever it is set to, unless it says "no": null, false, 0 or {}.
struct Blocker {
  const char* key;
  const char* reason;
};
constexpr Blocker kConfigBlockers[] = {
    {"quantization_config",
     "the weights are quantized: fold the f32, f16 or bf16 model, then quantize the result"},
    {"compression_config",
     "the weights are quantized: fold the f32, f16 or bf16 model, then quantize the result"},
    {"num_kv_shared_layers",
     "layers read the cache of another layer, which would have to be folded together: export the table "
     "instead"},
    {"attn_output_gate", "a gate stands between attention and o_proj, and no rotation passes through it"},
    {"clip_qkv", "values are clipped channel by channel, and no rotation passes through that"},
};
constexpr Blocker kGgufBlockers[] = {
    {".attention.shared_kv_layers",
     "layers read the cache of another layer, which would have to be folded together: export the table "
     "instead"},
    {".attention.kv_lora_rank",
     "multi-head latent attention: the cache holds a latent vector that keys and values share, and no "
     "values"},
};

bool IsSet(const Json& config, const char* key) {
  if (!config.contains(key)) return false;
  const Json& value = config[key];
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  return !value.empty();  // null and {} are empty
}

void CheckConfig(const Json& config, const std::string& where) {
  for (const Blocker& blocker : kConfigBlockers)
    if (IsSet(config, blocker.key)) throw Error(where + ": " + blocker.key + ": " + blocker.reason);
}

}  // namespace

void CheckModelFolder(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / kFoldNoteName))
    throw Error(folder.string() + ": has " + kFoldNoteName +
                ": values are folded already, and would be rotated twice: fold the model from before");
  if (std::filesystem::exists(folder / "adapter_config.json"))
    throw Error(folder.string() + ": has adapter_config.json: merge the adapter into the weights first");
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::exists(path)) return;
  const Json config = ParseJson(ReadFileBytes(path), path.string());
  CheckConfig(config, path.string());
  if (config.contains("text_config") && config["text_config"].is_object())
    CheckConfig(config["text_config"], path.string() + ": text_config");
}

void CheckGgufKeys(const GgufHeader& header, const std::filesystem::path& path) {
  const std::string where = path.string();
  for (const auto& [key, value] : header.numbers) {
    if (key == "split.count" && value > 1)
      throw Error(where + ": is one of " + std::to_string(value) +
                  " parts: join them first (llama-gguf-split --merge)");
    for (const Blocker& blocker : kGgufBlockers)
      if (key.ends_with(blocker.key) && value > 0) throw Error(where + ": " + key + ": " + blocker.reason);
  }
  // A float, which the header does not list by name.
  if (header.keys.find(".attention.clamp_kqv") != std::string::npos)
    throw Error(
        where +
        ": attention.clamp_kqv: values are clipped channel by channel, and no rotation passes through that");
}

}  // namespace so4cal
