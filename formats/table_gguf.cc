// SPDX-License-Identifier: Apache-2.0
#include "formats/table_gguf.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "formats/atomic_file.h"
#include "formats/byte_writer.h"
#include "formats/gguf.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

constexpr char kProvenanceKey[] = "so4cal.table";
constexpr char kHeadsKey[] = "so4cal.head_count_kv";
constexpr char kConventionKey[] = "so4cal.convention";
constexpr char kConvention[] =
    "blk.N.attn_k_rot.weight and attn_v_rot.weight hold U row-major, one per layer for all KV heads, so that "
    "ggml_mul_mat("
    "rot, K) is U k for keys after RoPE; queries are turned by the same U, attention outputs back by "
    "transpose(U).";
constexpr std::uint64_t kMaxHeads = 1024, kMaxHeadDim = 1024;
constexpr std::size_t kCopyBytes = std::size_t{4} << 20;

std::string TensorName(int layer, Side side) {
  return "blk." + std::to_string(layer) + ".attn_" + SideName(side) + "_rot.weight";
}

// The layer and side of a name that TensorName() gives.
std::optional<std::pair<int, Side>> ParseTensorName(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  int layer = 0;
  if (!name.starts_with(kPrefix)) return {};
  const char* begin = name.data() + kPrefix.size();
  if (std::from_chars(begin, name.data() + name.size(), layer).ec != std::errc() || layer < 0) return {};
  for (const Side side : kSides)
    if (name == TensorName(layer, side)) return std::pair(layer, side);
  return {};
}

// One rotation; `tensor` is that of `file`.
DenseSide ReadRotation(std::ifstream& file, const GgufHeader& header, const GgufTensor& tensor,
                       const std::string& where) {
  if (tensor.type != GgufTensor::kF32 || tensor.extents.size() != 2 ||
      tensor.extents[0] != tensor.extents[1] || tensor.extents[0] > kMaxHeadDim)
    throw Error(where + ": tensor '" + tensor.name + "' is no square matrix of F32 up to 1024 x 1024");
  const std::size_t d = tensor.extents[0];
  std::string bytes(4 * d * d, '\0');
  file.seekg(static_cast<std::streamoff>(header.data_begin + tensor.offset));
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    throw Error(where + ": tensor '" + tensor.name + "' can't be read");
  DenseSide side;
  side.head_dim = static_cast<int>(d);
  side.rotations.emplace_back(d * d);
  for (std::size_t row = 0; row < d; ++row)
    for (std::size_t column = 0; column < d; ++column)
      side.rotations[0][column * d + row] = LoadLittleEndian<float>(bytes.data() + 4 * (row * d + column));
  return side;
}

// U of a layer's side, row-major: R transposed. The engines have one for all heads, and no offset.
std::vector<float> SharedRotation(const DenseSide& side, const std::string& where) {
  if (!side.offsets.empty())
    throw Error(where + ": has offsets, which llama.cpp's rotations don't have: fit with --offset none");
  for (const auto& rotation : side.rotations)
    if (rotation != side.rotations.front())
      throw Error(where + ": its heads have different rotations, and llama.cpp has one per layer: fit with " +
                  "--share layer --offset none");
  const auto d = static_cast<std::size_t>(side.head_dim);
  std::vector<float> u(d * d);
  for (std::size_t row = 0; row < d; ++row)
    for (std::size_t column = 0; column < d; ++column)
      u[row * d + column] = side.rotations.front()[column * d + row];
  return u;
}

// Appends infos and keys to the header, returns the data to append, which starts at `data_bytes` of the data.
std::string AppendRotations(const RotationTable& table, std::uint64_t data_bytes, GgufHeader& header,
                            const std::string& where) {
  std::string data;
  for (const DenseLayer& layer : ToDense(table))
    for (const Side s : kSides) {
      const DenseSide& side = layer.side(s);
      const auto d = static_cast<std::uint64_t>(side.head_dim);
      const std::string tensor_where = where + ": layer " + std::to_string(layer.layer) + " " + SideName(s);
      header.tensors.push_back(
          {TensorName(layer.layer, s), {d, d}, GgufTensor::kF32, data_bytes + data.size()});
      AppendLittleEndian(data, std::span<const float>(SharedRotation(side, tensor_where)));
      data.resize((data.size() + header.alignment - 1) / header.alignment * header.alignment);
    }
  header.keys += GgufTextKey(kConventionKey, kConvention);
  header.keys += GgufTextKey(kProvenanceKey, DenseProvenance(table, where));
  header.keys +=
      GgufNumberKey(kHeadsKey, static_cast<std::uint32_t>(table.layers.front().sides[0].heads.size()));
  header.num_keys += 3;
  return data;
}

std::optional<std::uint64_t> ModelNumber(const GgufHeader& model, const std::string& key) {
  const auto architecture = model.texts.find("general.architecture");
  if (architecture == model.texts.end()) return {};
  const auto found = model.numbers.find(architecture->second + "." + key);
  if (found == model.numbers.end()) return {};
  return found->second;
}

void CheckModel(const RotationTable& table, const GgufHeader& model, const std::string& where) {
  for (const GgufTensor& tensor : model.tensors)
    if (tensor.name.find("attn_k_rot") != std::string::npos ||
        tensor.name.find("attn_v_rot") != std::string::npos)
      throw Error(where + ": has rotations already ('" + tensor.name +
                  "'): merge into the model without them");
  const auto layers = ModelNumber(model, "block_count");
  if (!layers) throw Error(where + ": is no model: it has no block_count");
  if (table.layers.back().layer >= static_cast<std::int64_t>(*layers))
    throw Error(where + ": has " + std::to_string(*layers) + " layers, and the table has layer " +
                std::to_string(table.layers.back().layer) + ": is it another model's?");
  const auto heads = ModelNumber(model, "attention.head_count"),
             width = ModelNumber(model, "embedding_length");
  const auto fallback = heads && width && *heads > 0 ? std::optional(*width / *heads) : std::nullopt;
  for (const Side s : kSides) {
    auto d = ModelNumber(model, s == Side::kKey ? "attention.key_length" : "attention.value_length");
    if (!d) d = fallback;
    for (const LayerTable& layer : table.layers)
      if (d && static_cast<std::uint64_t>(layer.side(s).codec.head_dim) != *d)
        throw Error(where + ": heads have " + std::to_string(*d) + " channels on side " + SideName(s) +
                    ", layer " + std::to_string(layer.layer) + " of the table " +
                    std::to_string(layer.side(s).codec.head_dim) + ": is it another model's?");
  }
}

// Bytes [begin, end) of `in`, then zeros up to a multiple of the alignment. Returns how many were written.
std::uint64_t CopyData(std::ifstream& in, std::uint64_t begin, std::uint64_t end, std::uint64_t alignment,
                       std::ofstream& out) {
  std::string piece;
  in.seekg(static_cast<std::streamoff>(begin));
  for (std::uint64_t at = begin; at < end && in && out; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kCopyBytes, end - at));
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  const std::uint64_t padding = (alignment - (end - begin) % alignment) % alignment;
  out.write(std::string(padding, '\0').data(), static_cast<std::streamsize>(padding));
  return end - begin + padding;
}

}  // namespace

void WriteTableGguf(const RotationTable& table, const fs::path& out) {
  const std::string where = "'" + out.string() + "'";
  GgufHeader header;
  header.keys = GgufTextKey("general.type", "kv_rotation") + GgufTextKey("general.name", table.model);
  header.num_keys = 2;
  const std::string data = AppendRotations(table, 0, header, where);
  WriteBytesAtomically(out, SerializeGgufHeader(header) + data);
}

void MergeIntoGguf(const RotationTable& table, const fs::path& model, const fs::path& out) {
  const std::string where = "'" + model.string() + "'";
  GgufHeader header = ReadGgufHeader(model);
  CheckModel(table, header, where);
  const std::uint64_t begin = header.data_begin, end = std::max(begin, std::uint64_t{fs::file_size(model)});
  const std::uint64_t data_bytes = (end - begin + header.alignment - 1) / header.alignment * header.alignment;
  const std::string rotations = AppendRotations(table, data_bytes, header, "'" + out.string() + "'");
  WriteAtomically(out, [&](const fs::path& temporary) {
    std::ifstream in(model, std::ios::binary);
    std::ofstream file(temporary, std::ios::binary);
    const std::string head = SerializeGgufHeader(header);
    file.write(head.data(), static_cast<std::streamsize>(head.size()));
    CopyData(in, begin, end, header.alignment, file);
    file.write(rotations.data(), static_cast<std::streamsize>(rotations.size()));
    file.close();
    if (!in) throw Error(where + ": can't be read to its end");
    if (!file) throw Error("can't write '" + out.string() + "': is the disk full?");
  });
}

RotationTable ReadTableGguf(const fs::path& path, const ReadOptions& options) {
  const std::string where = "'" + path.string() + "'";
  const GgufHeader header = ReadGgufHeader(path);
  std::ifstream file(path, std::ios::binary);
  std::map<int, DenseLayer> by_id;
  for (const GgufTensor& tensor : header.tensors)
    if (const auto name = ParseTensorName(tensor.name)) {
      DenseLayer& layer = by_id[name->first];
      layer.layer = name->first;
      layer.side(name->second) = ReadRotation(file, header, tensor, where);
    }
  if (by_id.empty()) throw Error(where + ": has no tensors blk.N.attn_k_rot.weight and attn_v_rot.weight");
  std::vector<DenseLayer> layers;
  for (auto& [id, layer] : by_id) {
    for (const Side s : kSides)
      if (layer.side(s).head_dim == 0) throw Error(where + ": has no tensor '" + TensorName(id, s) + "'");
    layers.push_back(std::move(layer));
  }
  ReadOptions with_heads = options;
  if (const auto heads = header.numbers.find(kHeadsKey);
      heads != header.numbers.end() && heads->second <= kMaxHeads)
    with_heads.num_kv_heads = static_cast<int>(heads->second);
  const auto provenance = header.texts.find(kProvenanceKey);
  return TableFromDense(std::move(layers), provenance == header.texts.end() ? "" : provenance->second,
                        with_heads, where);
}

}  // namespace so4cal
