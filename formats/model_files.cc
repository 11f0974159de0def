// SPDX-License-Identifier: Apache-2.0
#include "formats/model_files.h"

#include <algorithm>
#include <map>
#include <set>

#include "formats/atomic_file.h"
#include "formats/file_access.h"
#include "formats/gguf.h"
#include "formats/json_text.h"
#include "formats/model_config.h"
#include "formats/safetensors.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kSingleName[] = "model.safetensors", kIndexName[] = "model.safetensors.index.json";

void AddSafetensors(const std::string& file, ModelFiles& model) {
  const SafetensorsHeader header = ReadSafetensorsHeader(model.folder / file);
  model.weight_files.push_back(file);
  for (const SafetensorsHeader::Tensor& tensor : header.tensors)
    model.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, file, header.data_begin + tensor.begin});
}

void AddGguf(const std::string& file, ModelFiles& model) {
  const GgufHeader header = ReadGgufHeader(model.folder / file);
  CheckGgufKeys(header, model.folder / file);
  model.weight_files.push_back(file);
  for (const GgufTensor& tensor : header.tensors)
    model.tensors.push_back({tensor.name,
                             GgufTypeName(tensor.type),
                             {tensor.extents.rbegin(), tensor.extents.rend()},
                             file,
                             header.data_begin + tensor.offset});
}

// The shards that an index names, each once: weight_map is tensor name -> base name of its file.
std::map<std::string, std::string> ReadIndex(const fs::path& path) {
  const std::string where = path.string();
  const Json index = ParseJson(ReadFileBytes(path), where);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw Error(where + ": expected an index of shards with an object 'weight_map'");
  std::map<std::string, std::string> files;
  for (const auto& item : index["weight_map"].items()) {
    const std::string file = item.value().is_string() ? item.value().get<std::string>() : "";
    if (file.empty() || fs::path(file).filename() != file || file == "." || file == "..")
      throw Error(where + ": tensor '" + item.key() + "': expected the name of a file beside it, found " +
                  item.value().dump());
    files[item.key()] = file;
  }
  return files;
}

void AddShards(ModelFiles& model) {
  const fs::path path = model.folder / kIndexName;
  const std::map<std::string, std::string> index = ReadIndex(path);
  std::set<std::string> shards;
  for (const auto& [tensor, file] : index) shards.insert(file);
  for (const std::string& file : shards) AddSafetensors(file, model);
  std::set<std::string> seen;
  for (const ModelTensor& tensor : model.tensors) {
    if (!seen.insert(tensor.name).second)
      throw Error(path.string() + ": tensor '" + tensor.name +
                  "' is in two shards: which one counts is unknown");
    const auto found = index.find(tensor.name);
    if (found != index.end() && found->second != tensor.file)
      throw Error(path.string() + ": tensor '" + tensor.name + "' is in " + tensor.file +
                  ", the index says " + found->second);
  }
  for (const auto& [tensor, file] : index)
    if (!seen.contains(tensor))
      throw Error(path.string() + ": tensor '" + tensor + "' is not in " + file +
                  ", where the index says it is");
}

void OpenFolder(ModelFiles& model) {
  const bool single = fs::exists(model.folder / kSingleName), sharded = fs::exists(model.folder / kIndexName);
  if (single && sharded)
    throw Error(model.folder.string() + ": has both " + kSingleName + " and " + kIndexName +
                ": which one counts is unknown: move one of them away");
  if (!single && !sharded)
    throw Error(model.folder.string() + ": expected " + kSingleName + " or " + kIndexName +
                " in it: save the model as safetensors, or give a GGUF file");
  if (single)
    AddSafetensors(kSingleName, model);
  else
    AddShards(model);
}

bool IsGguf(const fs::path& path) {
  if (path.extension() == ".gguf") return true;
  if (path.extension() == ".safetensors") return false;
  throw Error(path.string() + ": expected a model folder, a .safetensors or a .gguf file");
}

bool EndsWithOneOf(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

}  // namespace

ModelFiles OpenModel(const fs::path& given) {
  const fs::path path = given.has_filename() ? given : given.parent_path();  // "folder/" is "folder"
  if (!fs::exists(path)) throw Error(given.string() + ": no such file or folder, expected a model");
  ModelFiles model;
  model.whole_folder = fs::is_directory(path);
  model.folder = model.whole_folder ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (model.whole_folder) {
    OpenFolder(model);
  } else if (IsGguf(path)) {
    model.kind = ModelKind::kGguf;
    AddGguf(path.filename().string(), model);
    return model;
  } else {
    AddSafetensors(path.filename().string(), model);
  }
  CheckModelFolder(model.folder);
  return model;
}

FolderFiles FilesOfModelFolder(const ModelFiles& model) {
  FolderFiles files;
  for (const auto& entry : fs::directory_iterator(model.folder)) {
    const std::string name = entry.path().filename().string();
    const bool weights = std::count(model.weight_files.begin(), model.weight_files.end(), name) > 0;
    const bool other_weights =
        EndsWithOneOf(name, {".safetensors", ".bin", ".bin.index.json", ".pt", ".pth", ".ckpt", ".gguf",
                             ".h5", ".msgpack", ".onnx", ".onnx_data", ".npz", ".ot"});
    const bool copied = entry.is_regular_file() && (weights || !other_weights);
    (copied ? files.copied : files.left_out).push_back(name);
  }
  std::sort(files.copied.begin(), files.copied.end());
  std::sort(files.left_out.begin(), files.left_out.end());
  return files;
}

void CopyModelFile(const fs::path& from, const fs::path& to, const std::function<void()>& between_parts) {
  constexpr std::uint64_t kPart = std::uint64_t{8} << 20;
  const FileAccess source(from, FileAccess::Mode::kRead);
  FileAccess target(to, FileAccess::Mode::kCreate);
  for (std::uint64_t at = 0; at < source.size(); at += kPart) {
    target.Write(at, source.Read(at, std::min(kPart, source.size() - at)));
    between_parts();
  }
}

}  // namespace so4cal
