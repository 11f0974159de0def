// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// GGUF version 2 and 3, little-endian (github.com/ggml-org/ggml, docs/gguf.md): header, keys, tensor infos,
// padding, data. Only the header is ever held in memory: a model of 40 GB has one of some MB.
struct GgufTensor {
  static constexpr std::uint32_t kF32 = 0, kF16 = 1, kBf16 = 30;
  std::string name;
  std::vector<std::uint64_t>
      extents;                // ggml's order: the first one is contiguous (the last of a row-major shape)
  std::uint32_t type = kF32;  // ggml_type
  std::uint64_t offset = 0;   // bytes from the start of the data, a multiple of the alignment
};

struct GgufHeader {
  std::uint32_t version = 3;
  std::uint64_t num_keys = 0;
  std::string keys;                              // all keys with their values, as in the file
  std::map<std::string, std::string> texts;      // the values that are strings
  std::map<std::string, std::uint64_t> numbers;  // the values that are integers from 0
  std::vector<GgufTensor> tensors;               // in the order of the file
  std::uint64_t alignment = 32;                  // of tensors, general.alignment
  std::uint64_t data_begin = 0;                  // bytes from the start of the file
};

// "F32", "Q4_0", ...; "type 99" for one that is not known here.
std::string GgufTypeName(std::uint32_t type);

// Bytes of the tensor's data. Throws Error (starting with `where`) for a type that is not known here, a row
// that is no whole number of blocks, or a size beyond 64 bits.
std::uint64_t GgufTensorBytes(const GgufTensor& tensor, const std::string& where);

// Reads and checks the header of a file: counts against what the file can hold, names unique, tensors
// aligned, inside the file and apart. Throws Error that names the file.
GgufHeader ReadGgufHeader(const std::filesystem::path& path);

// For writing: a key and its value, to be appended to GgufHeader::keys.
std::string GgufTextKey(std::string_view key, std::string_view value);
std::string GgufNumberKey(std::string_view key, std::uint32_t value);

// The bytes before the data: magic, version, counts, keys, tensor infos and padding.
std::string SerializeGgufHeader(const GgufHeader& header);

}  // namespace so4cal
