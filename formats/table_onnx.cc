// SPDX-License-Identifier: Apache-2.0
#include "formats/table_onnx.h"

#include <algorithm>
#include <charconv>

#include "formats/atomic_file.h"
#include "formats/byte_writer.h"
#include "formats/protobuf.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

// Field numbers of onnx.proto.
constexpr int kModelIrVersion = 1, kModelProducer = 2, kModelProducerVersion = 3, kModelDoc = 6,
              kModelGraph = 7, kModelOpsets = 8, kModelMetadata = 14;
constexpr int kOpsetVersion = 2;
constexpr int kGraphName = 2, kGraphInitializer = 5;
constexpr int kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;
constexpr int kEntryKey = 1, kEntryValue = 2;
constexpr std::uint64_t kIrVersion = 8,
                        kOpset = 17;  // of ONNX 1.12, old enough for every runtime with the operator
constexpr std::uint64_t kFloat = 1;   // TensorProto.FLOAT
constexpr std::size_t kMaxProtoBytes = std::size_t{1} << 31;
constexpr char kProvenanceKey[] = "so4cal";

constexpr std::string_view kPrefix = "layers.", kInfix = ".oscar_rotation_";

std::string TensorName(int layer, Side side) {
  return std::string(kPrefix) + std::to_string(layer) + std::string(kInfix) + SideName(side);
}

std::string Tensor(int layer, Side s, const DenseSide& side) {
  std::string raw, tensor;
  const auto d = static_cast<std::uint64_t>(side.head_dim);
  for (const std::uint64_t extent : {std::uint64_t{side.rotations.size()}, d, d})
    AppendProtoNumber(tensor, kTensorDims, extent);
  AppendProtoNumber(tensor, kTensorType, kFloat);
  AppendProtoBytes(tensor, kTensorName, TensorName(layer, s));
  for (const auto& rotation : side.rotations) AppendLittleEndian(raw, std::span<const float>(rotation));
  AppendProtoBytes(tensor, kTensorRaw, raw);
  return tensor;
}

std::string Entry(const std::string& key, const std::string& value) {
  std::string entry;
  AppendProtoBytes(entry, kEntryKey, key);
  AppendProtoBytes(entry, kEntryValue, value);
  return entry;
}

// The layer and side of a name that Tensor() wrote; false for other names.
bool ParseName(std::string_view name, int& layer, Side& side) {
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + 2) return false;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || layer < 0) return false;
  const std::string_view rest = name.substr(static_cast<std::size_t>(end - name.data()));
  side = rest.ends_with('k') ? Side::kKey : Side::kValue;
  return rest.size() == kInfix.size() + 1 && rest.starts_with(kInfix) && rest.ends_with(SideName(side));
}

void ReadTensor(std::string_view message, std::vector<DenseLayer>& layers, const std::string& where) {
  std::vector<std::uint64_t> shape;
  std::uint64_t type = 0;
  std::string_view name, raw;
  while (const auto field = NextProtoField(message, where)) {
    if (field->field == kTensorDims) shape.push_back(field->number);
    if (field->field == kTensorType) type = field->number;
    if (field->field == kTensorName) name = field->bytes;
    if (field->field == kTensorRaw) raw = field->bytes;
  }
  int id = 0;
  Side s = Side::kKey;
  if (!ParseName(name, id, s)) return;
  const std::string tensor_where = where + ": initializer '" + std::string(name) + "'";
  if (type != kFloat || shape.size() != 3 || shape[1] != shape[2] || shape[2] == 0 || shape[2] > 1024 ||
      raw.size() / 4 / shape[1] / shape[2] != shape[0] || raw.size() % (4 * shape[1] * shape[2]) != 0)
    throw Error(tensor_where + ": expected raw FLOAT data [H, d, d], d at most 1024");
  auto layer = std::find_if(layers.begin(), layers.end(), [&](const DenseLayer& l) { return l.layer == id; });
  if (layer == layers.end()) layer = layers.insert(layers.end(), {id, {}});
  DenseSide& side = layer->side(s);
  if (side.head_dim != 0) throw Error(tensor_where + " comes twice");
  side.head_dim = static_cast<int>(shape[1]);
  const std::size_t size = shape[1] * shape[2];
  for (std::size_t h = 0; h < shape[0]; ++h) {
    side.rotations.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i)
      side.rotations.back()[i] = LoadLittleEndian<float>(raw.data() + 4 * (h * size + i));
  }
}

std::string ReadProvenance(std::string_view entry, const std::string& where) {
  std::string_view key, value;
  while (const auto field = NextProtoField(entry, where))
    (field->field == kEntryKey ? key : value) = field->bytes;
  return key == kProvenanceKey ? std::string(value) : "";
}

}  // namespace

void WriteTableOnnx(const RotationTable& table, const fs::path& out) {
  const std::string where = "'" + out.string() + "'";
  std::string graph, model, opset;
  AppendProtoBytes(graph, kGraphName, "kv_rotations");
  for (const DenseLayer& layer : ToDense(table))
    for (const Side s : kSides) {
      if (!layer.side(s).offsets.empty())
        throw Error(where + ": layer " + std::to_string(layer.layer) +
                    " has offsets, which the operator has no input " + "for: fit with --offset none");
      AppendProtoBytes(graph, kGraphInitializer, Tensor(layer.layer, s, layer.side(s)));
    }
  if (graph.size() >= kMaxProtoBytes)
    throw Error(where +
                ": the rotations need more than the 2 GiB that an ONNX file may have: use --to safetensors");
  AppendProtoNumber(model, kModelIrVersion, kIrVersion);
  AppendProtoBytes(model, kModelProducer, "so4cal");
  AppendProtoBytes(model, kModelProducerVersion, table.tool_version);
  AppendProtoBytes(model, kModelDoc, kRowConventionText);
  AppendProtoBytes(model, kModelGraph, graph);
  AppendProtoNumber(opset, kOpsetVersion, kOpset);
  AppendProtoBytes(model, kModelOpsets, opset);
  AppendProtoBytes(model, kModelMetadata, Entry(kProvenanceKey, DenseProvenance(table, where)));
  WriteBytesAtomically(out, model);
}

RotationTable ReadTableOnnx(const fs::path& path, const ReadOptions& options) {
  const std::string where = "'" + path.string() + "'", bytes = ReadFileBytes(path);
  std::vector<DenseLayer> layers;
  std::string provenance;
  std::string_view model = bytes;
  while (const auto field = NextProtoField(model, where)) {
    if (field->field == kModelMetadata)
      if (const std::string found = ReadProvenance(field->bytes, where); !found.empty()) provenance = found;
    std::string_view graph = field->field == kModelGraph ? field->bytes : std::string_view();
    while (const auto part = NextProtoField(graph, where))
      if (part->field == kGraphInitializer) ReadTensor(part->bytes, layers, where);
  }
  if (layers.empty()) throw Error(where + ": has no initializers layers.N.oscar_rotation_k and _v");
  for (const DenseLayer& layer : layers)
    for (const Side s : kSides)
      if (layer.side(s).head_dim == 0)
        throw Error(where + ": has no initializer '" + TensorName(layer.layer, s) + "'");
  return TableFromDense(std::move(layers), provenance, options, where);
}

}  // namespace so4cal
