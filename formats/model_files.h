// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// A tensor of a model as its container describes it.
struct ModelTensor {
  std::string name;
  std::string type;                  // as the container calls it: "F32", "BF16", "Q4_0", ...
  std::vector<std::uint64_t> shape;  // row-major, the last one is contiguous
  std::string file;                  // base name of one of the model's weight files
  std::uint64_t begin = 0;           // bytes from the start of that file
};

enum class ModelKind : std::uint8_t { kSafetensors, kGguf };

struct ModelFiles {
  ModelKind kind = ModelKind::kSafetensors;
  std::filesystem::path folder;           // that the weight files are in
  bool whole_folder = false;              // the model is the folder, not a file in it
  std::vector<std::string> weight_files;  // base names
  std::vector<ModelTensor> tensors;
};

// The note that a fold leaves in a model's folder.
inline constexpr char kFoldNoteName[] = "so4cal_fold.json";

// Reads headers alone: of a folder with model.safetensors or model.safetensors.index.json and its shards, of
// one .safetensors file, or of one GGUF file. Throws Error when that is not what is there, and for what makes
// the whole model unfit for folding: quantized (config.json), caches that layers share, a gate or a clamp
// around attention, an adapter, a fold's own note. The config.json is that beside the weights; a single file
// need not have one.
ModelFiles OpenModel(const std::filesystem::path& path);

// What of a model's folder goes along into a copy with other weights: its files but not its subfolders, other
// weight files or indices of those (they would be of the model before).
struct FolderFiles {
  std::vector<std::string> copied, left_out;  // base names, in order
};
FolderFiles FilesOfModelFolder(const ModelFiles& model);

// A new file with the same bytes. Calls between_parts() every few megabytes; it may throw. Throws Error with
// the reason, such as a full disk.
void CopyModelFile(const std::filesystem::path& from, const std::filesystem::path& to,
                   const std::function<void()>& between_parts);

}  // namespace so4cal
