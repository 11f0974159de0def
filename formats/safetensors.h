// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// The container of github.com/huggingface/safetensors: u64 header length, JSON header, data. Little-endian.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F64", "F32", "F16", "BF16", "I64", ..., "U8", "BOOL"
  std::vector<std::uint64_t> shape;
  std::string bytes;  // row-major, little-endian
};

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsTensor> tensors;
};

// In the reference writer's order: widest dtype first, then by name; the header padded with spaces to 8
// bytes.
std::string SerializeSafetensors(SafetensorsFile file, const std::string& where);

// Strict: throws Error that starts with `where` on lengths that do not fit, names that come twice, unknown
// fields or dtypes, holes, overlaps, or bytes after the last tensor. Tensors come in the order of their data.
SafetensorsFile ParseSafetensors(std::string_view bytes, const std::string& where);

}  // namespace so4cal
