// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf.h"

#include <algorithm>
#include <bit>

#include "formats/byte_writer.h"
#include "formats/gguf_reader.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr char kMagic[] = "GGUF";
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;         // length, one letter, type, a bool
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // length, dimensions, one extent, type, offset
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;

// ggml_type: values per block, bytes per block. ggml.c, type_traits.
struct Type {
  std::uint32_t id;
  std::string_view name;
  std::uint64_t block, bytes;
};
constexpr Type kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
};

const Type* FindType(std::uint32_t id) {
  for (const Type& type : kTypes)
    if (type.id == id) return &type;
  return nullptr;
}

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

void AppendText(std::string& out, std::string_view text) {
  AppendLittleEndian(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

GgufTensor ReadTensor(GgufReader& reader) {
  GgufTensor tensor;
  tensor.name = reader.Text();
  const auto dimensions = reader.Number<std::uint32_t>();
  if (dimensions < 1 || dimensions > kMaxDimensions)
    throw reader.Failure("tensor '" + tensor.name + "' has " + std::to_string(dimensions) +
                         " dimensions, expected 1 to 4");
  for (std::uint32_t i = 0; i < dimensions; ++i) tensor.extents.push_back(reader.Number<std::uint64_t>());
  tensor.type = reader.Number<std::uint32_t>();
  tensor.offset = reader.Number<std::uint64_t>();
  return tensor;
}

// Tensors inside the file, aligned and apart. Types that are not known here have an unknown size: those only
// start in the file, so that a merge can copy a model newer than this code.
void CheckTensors(const GgufHeader& header, std::uint64_t file_size, const std::string& where) {
  std::vector<const GgufTensor*> by_offset;
  for (const GgufTensor& tensor : header.tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  const std::uint64_t data_size = file_size - std::min(header.data_begin, file_size);
  std::uint64_t end = 0;
  for (const GgufTensor* tensor : by_offset) {
    const std::string tensor_where = where + ": tensor '" + tensor->name + "'";
    const std::uint64_t bytes = FindType(tensor->type) ? GgufTensorBytes(*tensor, where) : 0;
    if (tensor->offset % header.alignment != 0)
      throw Error(tensor_where + " starts at byte " + std::to_string(tensor->offset) +
                  " of the data, expected a multiple of the alignment " + std::to_string(header.alignment));
    if (tensor->offset < end) throw Error(tensor_where + " overlaps the tensor before it");
    if (tensor->offset > data_size || bytes > data_size - tensor->offset)
      throw Error(tensor_where + " ends behind the end of the file: truncated?");
    end = tensor->offset + bytes;
  }
}

void CheckNames(const GgufHeader& header, const std::string& where) {
  std::vector<std::string_view> names;
  for (const GgufTensor& tensor : header.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw Error(where + ": tensor '" + std::string(*twice) + "' comes twice");
}

void CheckCount(const GgufReader& reader, std::uint64_t count, std::uint64_t least_bytes, const char* what) {
  if (count > reader.remaining() / least_bytes)
    throw reader.Failure("claims " + std::to_string(count) + " " + what + ", more than the file can hold");
}

}  // namespace

std::string GgufTypeName(std::uint32_t type) {
  const Type* known = FindType(type);
  return known ? std::string(known->name) : "type " + std::to_string(type);
}

std::uint64_t GgufTensorBytes(const GgufTensor& tensor, const std::string& where) {
  const std::string tensor_where = where + ": tensor '" + tensor.name + "'";
  const Type* type = FindType(tensor.type);
  if (type == nullptr)
    throw Error(tensor_where + " has the unknown ggml type " + std::to_string(tensor.type));
  if (tensor.extents.empty() || tensor.extents[0] % type->block != 0)
    throw Error(tensor_where + ": its rows are no whole number of " + std::string(type->name) + " blocks");
  std::uint64_t bytes = type->bytes;
  if (__builtin_mul_overflow(bytes, tensor.extents[0] / type->block, &bytes)) bytes = ~std::uint64_t{0};
  for (std::size_t i = 1; i < tensor.extents.size(); ++i)
    if (__builtin_mul_overflow(bytes, tensor.extents[i], &bytes))
      throw Error(tensor_where + ": its extents are too large for any file");
  return bytes;
}

GgufHeader ReadGgufHeader(const std::filesystem::path& path) {
  GgufReader reader(path);
  GgufHeader header;
  if (reader.Bytes(4) != kMagic) throw reader.Failure("expected a GGUF file, found another first word");
  header.version = reader.Number<std::uint32_t>();
  if (header.version != 2 && header.version != 3)
    throw reader.Failure("GGUF version is " + std::to_string(header.version) +
                         ", expected 2 or 3, little-endian");
  const auto num_tensors = reader.Number<std::uint64_t>();
  header.num_keys = reader.Number<std::uint64_t>();
  CheckCount(reader, header.num_keys, kMinKeyBytes, "keys");
  CheckCount(reader, num_tensors, kMinTensorBytes, "tensors");
  const std::uint64_t keys_begin = reader.position();
  for (std::uint64_t i = 0; i < header.num_keys; ++i) ReadGgufKey(reader, header);
  const std::uint64_t keys_end = reader.position();
  header.keys = reader.BytesAt(keys_begin, keys_end - keys_begin);
  if (const auto found = header.numbers.find("general.alignment"); found != header.numbers.end())
    header.alignment = found->second;
  if (header.alignment < 8 || header.alignment > kMaxAlignment || !std::has_single_bit(header.alignment))
    throw reader.Failure("general.alignment is " + std::to_string(header.alignment) +
                         ", expected a power of two from 8 to 1048576");
  for (std::uint64_t i = 0; i < num_tensors; ++i) header.tensors.push_back(ReadTensor(reader));
  header.data_begin = RoundUp(reader.position(), header.alignment);
  const std::string where = "'" + path.string() + "'";
  CheckNames(header, where);
  CheckTensors(header, reader.size(), where);
  return header;
}

std::string GgufTextKey(std::string_view key, std::string_view value) {
  std::string out;
  AppendText(out, key);
  AppendLittleEndian(out, kGgufText);
  AppendText(out, value);
  return out;
}

std::string GgufNumberKey(std::string_view key, std::uint32_t value) {
  std::string out;
  AppendText(out, key);
  AppendLittleEndian(out, kGgufUint32);
  AppendLittleEndian(out, value);
  return out;
}

std::string SerializeGgufHeader(const GgufHeader& header) {
  std::string out = kMagic;
  AppendLittleEndian(out, header.version);
  AppendLittleEndian(out, static_cast<std::uint64_t>(header.tensors.size()));
  AppendLittleEndian(out, header.num_keys);
  out += header.keys;
  for (const GgufTensor& tensor : header.tensors) {
    AppendText(out, tensor.name);
    AppendLittleEndian(out, static_cast<std::uint32_t>(tensor.extents.size()));
    AppendLittleEndian(out, std::span<const std::uint64_t>(tensor.extents));
    AppendLittleEndian(out, tensor.type);
    AppendLittleEndian(out, tensor.offset);
  }
  out.resize(RoundUp(out.size(), header.alignment), '\0');
  return out;
}

}  // namespace so4cal
