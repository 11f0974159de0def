// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "formats/atomic_file.h"
#include "formats/safetensors.h"
#include "tests/support/temp_folder.h"

namespace so4cal::testing {

// A tensor of zeros.
inline SafetensorsTensor ZeroTensor(const std::string& name, std::vector<std::uint64_t> shape) {
  std::uint64_t bytes = 4;
  for (const std::uint64_t extent : shape) bytes *= extent;
  return {name, "F32", std::move(shape), std::string(bytes, '\0')};
}

inline void WriteSafetensors(const std::filesystem::path& path, std::vector<SafetensorsTensor> tensors) {
  WriteBytesAtomically(path, SerializeSafetensors({{}, std::move(tensors)}, path.string()));
}

}  // namespace so4cal::testing
