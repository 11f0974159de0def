// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// The container of github.com/huggingface/safetensors: u64 header length, JSON header, data. Little-endian.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F64", "F32", "F16", "BF16", "I64", ..., "F8_E4M3", "U8", "BOOL"
  std::vector<std::uint64_t> shape;
  std::string bytes;  // row-major, little-endian
};

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsTensor> tensors;
};

// Where the tensors of a file lie.
struct SafetensorsHeader {
  struct Tensor {
    std::string name, dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t begin = 0, end = 0;  // bytes from the start of the data
  };
  std::map<std::string, std::string> metadata;
  std::vector<Tensor> tensors;   // in the order of their data
  std::uint64_t data_begin = 0;  // bytes from the start of the file
};

// In the reference writer's order: widest dtype first, then by name; the header padded with spaces to 8
// bytes.
std::string SerializeSafetensors(SafetensorsFile file, const std::string& where);

// Strict: throws Error that starts with `where` on lengths that do not fit, names that come twice, unknown
// fields or dtypes, holes, overlaps, or bytes after the last tensor. Tensors come in the order of their data.
SafetensorsFile ParseSafetensors(std::string_view bytes, const std::string& where);

// As strict, but reads the header alone: for files larger than memory. Throws Error that names the file.
SafetensorsHeader ReadSafetensorsHeader(const std::filesystem::path& path);

}  // namespace so4cal
