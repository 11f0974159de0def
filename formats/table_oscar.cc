// SPDX-License-Identifier: Apache-2.0
#include "formats/table_oscar.h"

#include <algorithm>
#include <charconv>

#include "formats/atomic_file.h"
#include "formats/atomic_folder.h"
#include "formats/torch_file.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;
using Kind = PickleValue::Kind;

constexpr char kProvenanceKey[] = "so4cal";
constexpr int kFormatVersion = 2;
constexpr int kMaxLayer = 100'000;

const char* StemOf(Side side) { return side == Side::kKey ? "k_rotation" : "v_rotation"; }

void Refuse(const RotationTable& table, const std::string& where) {
  for (const LayerTable& layer : table.layers)
    for (const HeadTable& head : layer.side(Side::kValue).heads)
      if (!head.transform.offset.empty())
        throw Error(where + ": OSCAR subtracts an offset from keys only, and layer " +
                    std::to_string(layer.layer) + " has value offsets: fit with --offset k=mean,v=none");
}

void WriteLayer(TorchWriter& file, const DenseLayer& layer, Side s) {
  const DenseSide& side = layer.side(s);
  const auto d = static_cast<std::uint64_t>(side.head_dim);
  std::vector<float> rotations, offsets;
  for (const auto& rotation : side.rotations)
    rotations.insert(rotations.end(), rotation.begin(), rotation.end());
  for (const auto& offset : side.offsets) offsets.insert(offsets.end(), offset.begin(), offset.end());
  PickleWriter& pickle = file.pickle();
  pickle.Integer(static_cast<std::uint64_t>(layer.layer));
  pickle.BeginDict();
  pickle.Text("layer_id");
  pickle.Integer(static_cast<std::uint64_t>(layer.layer));
  pickle.Text("rotation");
  file.Tensor(std::vector<std::uint64_t>{side.rotations.size(), d, d}, rotations);
  if (!offsets.empty()) {
    pickle.Text("k_mean");
    file.Tensor(std::vector<std::uint64_t>{side.offsets.size(), d}, offsets);
  }
  pickle.EndDict();
}

void WriteEntry(PickleWriter& pickle, const std::string& key, const std::string& value) {
  pickle.Text(key);
  pickle.Text(value);
}

// OSCAR's loader wants a companion in all layers or in none.
void FillOffsets(std::vector<DenseLayer>& layers, Side s) {
  const bool any =
      std::any_of(layers.begin(), layers.end(), [&](const auto& l) { return !l.side(s).offsets.empty(); });
  for (DenseLayer& layer : layers) {
    DenseSide& side = layer.side(s);
    if (any && side.offsets.empty())
      side.offsets.assign(side.rotations.size(), std::vector<float>(static_cast<std::size_t>(side.head_dim)));
  }
}

std::string SerializeSide(const RotationTable& table, const std::vector<DenseLayer>& layers, Side s,
                          const std::string& where) {
  TorchWriter file;
  PickleWriter& pickle = file.pickle();
  pickle.BeginDict();
  pickle.Text("format_version");
  pickle.Integer(kFormatVersion);
  WriteEntry(pickle, "objective", "so4cal");
  WriteEntry(pickle, "source_grouping", "kv_head");
  pickle.Text("calibration");
  pickle.BeginDict();
  WriteEntry(pickle, "model_path", table.model);
  pickle.Text("post_rope");
  pickle.Bool(true);
  WriteEntry(pickle, "convention", kRowConventionText);
  WriteEntry(pickle, kProvenanceKey, DenseProvenance(table, where));
  pickle.EndDict();
  pickle.Text("layers");
  pickle.BeginDict();
  for (const DenseLayer& layer : layers) WriteLayer(file, layer, s);
  pickle.EndDict();
  pickle.EndDict();
  return std::move(file).Finish(StemOf(s), where);
}

// "k_rotation.pt", or the one file there whose name starts with the side's letter: OSCAR's tools add the
// objective.
fs::path FindSide(const fs::path& folder, Side s) {
  if (const fs::path ours = folder / (StemOf(s) + std::string(".pt")); fs::exists(ours)) return ours;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".pt" && entry.path().filename().string().starts_with(SideName(s)))
      found.push_back(entry.path());
  if (found.size() == 1) return found[0];
  throw Error("'" + folder.string() + "': expected one file " + SideName(s) + "*.pt in it, found " +
              std::to_string(found.size()));
}

int LayerId(const PickleValue& key, const std::string& where) {
  int id = -1;
  if (key.kind == Kind::kInt && key.integer >= 0 && key.integer <= kMaxLayer)
    id = static_cast<int>(key.integer);
  if (key.kind == Kind::kText)
    if (const auto [end, error] = std::from_chars(key.text.data(), key.text.data() + key.text.size(), id);
        error != std::errc() || end != key.text.data() + key.text.size() || id > kMaxLayer)
      id = -1;
  if (id < 0) throw Error(where + ": a key of 'layers' is no layer number");
  return id;
}

// [H, ...rest] or [...rest] as one vector per head.
std::vector<std::vector<float>> SplitHeads(const TorchTensor& tensor, std::size_t rest) {
  std::size_t size = 1;
  for (std::size_t i = tensor.shape.size() - rest; i < tensor.shape.size(); ++i) size *= tensor.shape[i];
  std::vector<std::vector<float>> heads;
  for (std::size_t at = 0; at < tensor.values.size(); at += size)
    heads.emplace_back(tensor.values.begin() + static_cast<std::ptrdiff_t>(at),
                       tensor.values.begin() + static_cast<std::ptrdiff_t>(at + size));
  return heads;
}

DenseSide ReadLayer(const TorchFile& file, const PickleValue& layer, const std::string& what,
                    const std::string& where) {
  for (const char* companion : {"q_rotation", "o_rotation"})
    if (layer.Find(companion) != nullptr)
      throw Error(where + ": " + what + " has " + companion +
                  ": a map that is not orthogonal, which so4cal has no " + "form for");
  const PickleValue* rotation = layer.Find("rotation");
  if (rotation == nullptr) throw Error(where + ": " + what + " has no 'rotation'");
  const TorchTensor tensor = file.Tensor(*rotation, what + " rotation");
  const auto& shape = tensor.shape;
  if ((shape.size() != 2 && shape.size() != 3) || shape.back() != shape[shape.size() - 2] ||
      shape.back() > 1024)
    throw Error(where + ": " + what + " rotation has " + std::to_string(shape.size()) +
                " dimensions or is not square, expected [d, d] or [H, d, d], d at most 1024");
  DenseSide side;
  side.head_dim = static_cast<int>(shape.back());
  side.rotations = SplitHeads(tensor, 2);
  if (const PickleValue* mean = layer.Find("k_mean")) {
    const TorchTensor offsets = file.Tensor(*mean, what + " k_mean");
    if (offsets.shape.empty() || offsets.shape.back() != shape.back() || offsets.shape.size() > 2)
      throw Error(where + ": " + what + " k_mean does not fit the rotation, expected [d] or [H, d]");
    side.offsets = SplitHeads(offsets, 1);
  }
  return side;
}

// Adds one file's side to the layers; returns so4cal's provenance in it, if any.
std::string ReadSide(const fs::path& path, Side s, std::vector<DenseLayer>& layers) {
  const std::string where = "'" + path.string() + "'";
  const TorchFile file(ReadFileBytes(path), where);
  const PickleValue* by_id = file.root().Find("layers");
  if (by_id == nullptr || by_id->kind != Kind::kDict || by_id->items.empty())
    throw Error(where + ": expected a dictionary with 'layers', as OSCAR's tools write it");
  for (std::size_t i = 0; i + 1 < by_id->items.size(); i += 2) {
    const int id = LayerId(*by_id->items[i], where);
    const std::string what = "layer " + std::to_string(id);
    auto layer =
        std::find_if(layers.begin(), layers.end(), [&](const DenseLayer& l) { return l.layer == id; });
    if (layer == layers.end()) layer = layers.insert(layers.end(), {id, {}});
    if (layer->side(s).head_dim != 0) throw Error(where + ": " + what + " comes twice");
    layer->side(s) = ReadLayer(file, *by_id->items[i + 1], what, where);
  }
  const PickleValue* calibration = file.root().Find("calibration");
  const PickleValue* provenance = calibration ? calibration->Find(kProvenanceKey) : nullptr;
  return provenance ? provenance->text : "";
}

}  // namespace

void WriteTableOscar(const RotationTable& table, const fs::path& out) {
  const std::string where = "'" + out.string() + "'";
  Refuse(table, where);
  std::vector<DenseLayer> layers = ToDense(table);
  FillOffsets(layers, Side::kKey);
  WriteFolderAtomically(out, [&](const fs::path& temporary) {
    for (const Side s : kSides)
      WriteBytesAtomically(temporary / (StemOf(s) + std::string(".pt")),
                           SerializeSide(table, layers, s, where));
  });
}

RotationTable ReadTableOscar(const fs::path& folder, const ReadOptions& options) {
  if (!fs::is_directory(folder))
    throw Error("'" + folder.string() + "': expected a folder with k_rotation.pt and v_rotation.pt");
  std::vector<DenseLayer> layers;
  std::string provenance;
  for (const Side s : kSides) provenance = ReadSide(FindSide(folder, s), s, layers);
  const std::string where = "'" + folder.string() + "'";
  for (const DenseLayer& layer : layers)
    for (const Side s : kSides)
      if (layer.side(s).head_dim == 0)
        throw Error(where + ": layer " + std::to_string(layer.layer) + " is in one of the two files only");
  return TableFromDense(std::move(layers), provenance, options, where);
}

}  // namespace so4cal
