// SPDX-License-Identifier: Apache-2.0
#include "formats/table_safetensors.h"

#include <algorithm>
#include <cmath>

#include "formats/atomic_file.h"
#include "formats/byte_writer.h"
#include "formats/dense_safetensors.h"
#include "formats/safetensors.h"
#include "formats/table_json.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr char kFormatKey[] = "format";
constexpr char kFormatName[] = "so4cal-safetensors";
constexpr char kTableKey[] = "table";  // the native table as JSON, large arrays by the name of their tensor
constexpr double kRotationTolerance = 1e-6;
const char* DtypeOf(const std::vector<std::uint8_t>&) { return "U8"; }
const char* DtypeOf(const std::vector<std::int8_t>&) { return "I8"; }
const char* DtypeOf(const std::vector<std::uint64_t>&) { return "U64"; }
const char* DtypeOf(const std::vector<float>&) { return "F32"; }
const char* DtypeOf(const std::vector<double>&) { return "F64"; }

// "/layers/0/k/offset" -> "layers.0.k_offset"
std::string TensorName(std::string path) {
  path = path.substr(1);
  path[path.rfind('/')] = '_';
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

std::string TensorName(int layer, Side side, const char* what) {
  return "layers." + std::to_string(layer) + "." + SideName(side) + "_" + what;
}

SafetensorsTensor ToTensor(const std::string& name, ArrayRef values, const Shape& shape) {
  SafetensorsTensor tensor{name, "", shape, ""};
  const auto fill = [&](const auto* v) {
    tensor.dtype = DtypeOf(*v);
    AppendLittleEndian(tensor.bytes, std::span(*v));
  };
  std::visit(fill, values);
  return tensor;
}

// All tensors of a file that is being read, each to be taken once.
class Tensors {
 public:
  Tensors(std::vector<SafetensorsTensor> tensors, std::string where) : where_(std::move(where)) {
    for (SafetensorsTensor& tensor : tensors) by_name_[tensor.name] = std::move(tensor);
  }

  // Fills `values` after a check of dtype and shape.
  void Take(const std::string& name, ArrayRef values, const Shape& shape) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) throw Error(where_ + ": tensor '" + name + "' is missing");
    const SafetensorsTensor& tensor = found->second;
    const std::string dtype = std::visit([](const auto* v) { return DtypeOf(*v); }, values);
    if (tensor.dtype != dtype || tensor.shape != shape)
      throw Error(where_ + ": tensor '" + name + "' is " + tensor.dtype + " " + ShapeText(tensor.shape) +
                  ", expected " + dtype + " " + ShapeText(shape));
    const auto fill = [&](auto* v) {
      using T = typename std::remove_cvref_t<decltype(*v)>::value_type;
      v->resize(tensor.bytes.size() / sizeof(T));
      for (std::size_t i = 0; i < v->size(); ++i)
        (*v)[i] = LoadLittleEndian<T>(tensor.bytes.data() + i * sizeof(T));
    };
    std::visit(fill, values);
    by_name_.erase(found);
  }

  void CheckAllTaken() const {
    if (!by_name_.empty())
      throw Error(where_ + ": tensor '" + by_name_.begin()->first + "' does not belong to a rotation table");
  }

 private:
  std::string where_;
  std::map<std::string, SafetensorsTensor> by_name_;
};

// R = U^T of the chosen map of every head, [H, d, d].
std::vector<float> Rotations(const SideTable& side) {
  std::vector<float> rotations;
  for (const HeadTable& head : side.heads) {
    const std::vector<float> r = RowRotation(head);
    rotations.insert(rotations.end(), r.begin(), r.end());
  }
  return rotations;
}

std::vector<std::uint8_t> ChosenCodes(const SideTable& side) {
  std::vector<std::uint8_t> codes;
  for (const HeadTable& head : side.heads) codes.push_back(static_cast<std::uint8_t>(head.chosen));
  return codes;
}

Shape RotationShape(const SideTable& side) {
  const auto d = static_cast<std::uint64_t>(side.codec.head_dim);
  return {side.heads.size(), d, d};
}

void CheckDerived(Tensors& tensors, const LayerTable& layer, Side s, const std::string& where) {
  const SideTable& side = layer.side(s);
  std::vector<std::uint8_t> chosen;
  tensors.Take(TensorName(layer.layer, s, "chosen"), &chosen, {side.heads.size()});
  if (chosen != ChosenCodes(side))
    throw Error(where + ": tensor '" + TensorName(layer.layer, s, "chosen") +
                "' differs from the table in the metadata");
  const std::string name = TensorName(layer.layer, s, "rotation");
  std::vector<float> rotations;
  tensors.Take(name, &rotations, RotationShape(side));
  const std::vector<float> expected = Rotations(side);
  const std::size_t head_size = expected.size() / side.heads.size();
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(double{rotations[i]} - double{expected[i]}) <= kRotationTolerance))
      throw Error(where + ": tensor '" + name + "', head " + std::to_string(i / head_size) + ": entry " +
                  std::to_string(i % head_size) + " is " + std::to_string(rotations[i]) +
                  ", but its quaternions give " + std::to_string(expected[i]));
}

}  // namespace

void WriteTableSafetensors(const RotationTable& table, const std::filesystem::path& out) {
  SafetensorsFile file;
  const ArrayStore store = [&](const std::string& path, ArrayRef values, const Shape& shape) {
    file.tensors.push_back(ToTensor(TensorName(path), values, shape));
    return file.tensors.back().name;
  };
  file.metadata[kTableKey] = TableToJson(table, out.string(), store);
  file.metadata[kFormatKey] = kFormatName;
  file.metadata["convention"] = std::string(kRowConventionText) + " " + kConventionText;
  file.metadata["tool_version"] = table.tool_version;
  for (const LayerTable& layer : table.layers)
    for (const Side s : kSides) {
      const SideTable& side = layer.side(s);
      std::vector<float> rotations = Rotations(side);
      std::vector<std::uint8_t> chosen = ChosenCodes(side);
      file.tensors.push_back(
          ToTensor(TensorName(layer.layer, s, "rotation"), &rotations, RotationShape(side)));
      file.tensors.push_back(ToTensor(TensorName(layer.layer, s, "chosen"), &chosen, {chosen.size()}));
    }
  WriteBytesAtomically(out, SerializeSafetensors(std::move(file), "'" + out.string() + "'"));
}

RotationTable ReadTableSafetensors(const std::filesystem::path& path, const ReadOptions& options) {
  const std::string where = "'" + path.string() + "'";
  SafetensorsFile file = ParseSafetensors(ReadFileBytes(path), where);
  if (file.metadata[kFormatKey] != kFormatName)
    return TableFromDense(DenseFromSafetensors(file, where), "", options, where);
  Tensors tensors(std::move(file.tensors), where);
  const ArrayStore store = [&](const std::string& array, ArrayRef values, const Shape& shape) {
    tensors.Take(TensorName(array), values, shape);
    return TensorName(array);
  };
  const RotationTable table = TableFromJson(file.metadata[kTableKey], path.string(), store);
  for (const LayerTable& layer : table.layers)
    for (const Side s : kSides) CheckDerived(tensors, layer, s, where);
  tensors.CheckAllTaken();
  return table;
}

}  // namespace so4cal
