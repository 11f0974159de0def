// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <algorithm>
#include <limits>

#include "formats/byte_writer.h"
#include "formats/file_access.h"
#include "formats/json_text.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;

// In the order in which the reference writer stores tensors.
struct Dtype {
  std::string_view name;
  std::uint64_t size;
};
constexpr Dtype kDtypes[] = {{"U64", 8},         {"I64", 8},     {"F64", 8},     {"C64", 8},
                             {"F32", 4},         {"U32", 4},     {"I32", 4},     {"BF16", 2},
                             {"F16", 2},         {"U16", 2},     {"I16", 2},     {"F8_E5M2FNUZ", 1},
                             {"F8_E4M3FNUZ", 1}, {"F8_E8M0", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
                             {"I8", 1},          {"U8", 1},      {"BOOL", 1}};

const Dtype* FindDtype(const std::string& name) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}

using Entry = SafetensorsHeader::Tensor;

std::uint64_t ReadUnsigned(const Json& value, const std::string& where) {
  if (!value.is_number_unsigned())
    throw Error(where + ": expected whole numbers from 0, found " + value.dump());
  return value.get<std::uint64_t>();
}

std::uint64_t NumBytes(const Entry& tensor, std::uint64_t element_size, const std::string& where) {
  std::uint64_t bytes = element_size;
  for (const std::uint64_t extent : tensor.shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      throw Error(where + ": its shape is too large for any file");
  return bytes;
}

Entry ParseEntry(const std::string& name, const Json& json, const std::string& file) {
  const std::string where = file + ": tensor '" + name + "'";
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    throw Error(where + ": expected exactly dtype, shape and data_offsets");
  const Json &dtype = json.at("dtype"), &shape = json.at("shape"), &offsets = json.at("data_offsets");
  const Dtype* known = dtype.is_string() ? FindDtype(dtype.get<std::string>()) : nullptr;
  if (known == nullptr) throw Error(where + ": unknown dtype " + dtype.dump());
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    throw Error(where + ": expected lists in shape and data_offsets, two numbers in the latter");
  Entry entry{
      name, std::string(known->name), {}, ReadUnsigned(offsets[0], where), ReadUnsigned(offsets[1], where)};
  for (const Json& extent : shape) entry.shape.push_back(ReadUnsigned(extent, where));
  const std::uint64_t bytes = NumBytes(entry, known->size, where);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    throw Error(where + ": data_offsets " + offsets.dump() + " do not hold the " + std::to_string(bytes) +
                " bytes of its shape");
  return entry;
}

std::map<std::string, std::string> ParseMetadata(const Json& json, const std::string& where) {
  std::map<std::string, std::string> metadata;
  if (!json.is_object()) throw Error(where + ": __metadata__ is no object");
  for (const auto& item : json.items()) {
    if (!item.value().is_string()) throw Error(where + ": __metadata__ '" + item.key() + "' is no string");
    metadata[item.key()] = item.value().get<std::string>();
  }
  return metadata;
}

// The data must be covered from its first to its last byte, each byte once.
void CheckTiling(const std::vector<Entry>& entries, std::uint64_t data_bytes, const std::string& where) {
  std::uint64_t next = 0;
  for (const Entry& e : entries) {
    if (e.begin != next)
      throw Error(where + ": tensor '" + e.name + "' starts at byte " + std::to_string(e.begin) +
                  " of the data, expected " + std::to_string(next) + ": tensors overlap or leave a hole");
    next = e.end;
  }
  if (next != data_bytes)
    throw Error(where + ": holds " + std::to_string(data_bytes) + " bytes of data, expected " +
                std::to_string(next) + ": the file is truncated or has something appended");
}

// Of a file of this many bytes that starts with these 8.
std::uint64_t HeaderLength(std::string_view first, std::uint64_t file_bytes, const std::string& where) {
  if (file_bytes < kLengthBytes) throw Error(where + ": not safetensors: shorter than 8 bytes");
  const auto length = LoadLittleEndian<std::uint64_t>(first.data());
  if (length > kMaxHeaderBytes || length > file_bytes - kLengthBytes)
    throw Error(where + ": not safetensors, or truncated: claims a header of " + std::to_string(length) +
                " bytes in a file of " + std::to_string(file_bytes));
  return length;
}

SafetensorsHeader ParseHeader(std::string_view header, std::uint64_t file_bytes, const std::string& where) {
  if (header.empty() || header.front() != '{')
    throw Error(where + ": not safetensors: the header starts with no '{'");
  SafetensorsHeader parsed;
  parsed.data_begin = kLengthBytes + header.size();
  const Json json = ParseJson(header, where + ": header");
  for (const auto& item : json.items())
    if (item.key() == "__metadata__")
      parsed.metadata = ParseMetadata(item.value(), where);
    else
      parsed.tensors.push_back(ParseEntry(item.key(), item.value(), where));
  std::sort(parsed.tensors.begin(), parsed.tensors.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  CheckTiling(parsed.tensors, file_bytes - parsed.data_begin, where);
  return parsed;
}

}  // namespace

std::string SerializeSafetensors(SafetensorsFile file, const std::string& where) {
  const auto before = [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    const Dtype *da = FindDtype(a.dtype), *db = FindDtype(b.dtype);
    return da != db ? da < db : a.name < b.name;
  };
  for (const SafetensorsTensor& tensor : file.tensors) SO4CAL_CHECK(FindDtype(tensor.dtype) != nullptr);
  std::sort(file.tensors.begin(), file.tensors.end(), before);
  std::string header = "{\"__metadata__\":{";
  for (const auto& [key, value] : file.metadata)
    header.append(header.back() == '{' ? "" : ",")
        .append(JsonString(key, where))
        .append(":")
        .append(JsonString(value, where));
  header += '}';
  std::uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : file.tensors) {
    header.append(",").append(JsonString(tensor.name, where)).append(":{\"dtype\":\"").append(tensor.dtype);
    header.append("\",\"shape\":").append(Json(tensor.shape).dump()).append(",\"data_offsets\":[");
    header.append(std::to_string(offset))
        .append(",")
        .append(std::to_string(offset + tensor.bytes.size()))
        .append("]}");
    offset += tensor.bytes.size();
  }
  header += '}';
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  std::string out;
  out.reserve(kLengthBytes + header.size() + offset);
  AppendLittleEndian(out, static_cast<std::uint64_t>(header.size()));
  out += header;
  for (const SafetensorsTensor& tensor : file.tensors) out += tensor.bytes;
  return out;
}

SafetensorsFile ParseSafetensors(std::string_view bytes, const std::string& where) {
  const std::uint64_t length = HeaderLength(bytes, bytes.size(), where);
  SafetensorsHeader header = ParseHeader(bytes.substr(kLengthBytes, length), bytes.size(), where);
  SafetensorsFile file{std::move(header.metadata), {}};
  const std::string_view data = bytes.substr(header.data_begin);
  for (Entry& e : header.tensors)
    file.tensors.push_back({std::move(e.name), std::move(e.dtype), std::move(e.shape),
                            std::string(data.substr(e.begin, e.end - e.begin))});
  return file;
}

SafetensorsHeader ReadSafetensorsHeader(const std::filesystem::path& path) {
  const std::string where = path.string();
  const FileAccess file(path, FileAccess::Mode::kRead);
  const std::string first = file.Read(0, std::min<std::uint64_t>(file.size(), kLengthBytes));
  const std::uint64_t length = HeaderLength(first, file.size(), where);
  return ParseHeader(file.Read(kLengthBytes, length), file.size(), where);
}

}  // namespace so4cal
