// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "formats/byte_writer.h"
#include "formats/gguf.h"
#include "lib/error.h"

namespace so4cal {

// Value types of GGUF keys that are of interest by name; the other ones are skipped by size.
inline constexpr std::uint32_t kGgufUint32 = 4, kGgufText = 8, kGgufArray = 9;

// Reads a file from front to back; every length is held to what is left of the file before anything is
// allocated.
class GgufReader {
 public:
  explicit GgufReader(const std::filesystem::path& path);

  std::uint64_t size() const { return size_; }
  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return size_ - position_; }

  template <class T>
  T Number() {
    return LoadLittleEndian<T>(Bytes(sizeof(T)).data());
  }
  std::string Text() { return Bytes(Number<std::uint64_t>()); }
  std::string Bytes(std::uint64_t count);
  void Skip(std::uint64_t count);
  std::string BytesAt(std::uint64_t begin, std::uint64_t count);  // the position stays

  Error Failure(const std::string& what) const;  // "'FILE' at byte N: what"

 private:
  void CheckRemaining(std::uint64_t count) const;

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t size_ = 0, position_ = 0;
};

// One key with its value: texts and integers go into `header`, other values are skipped. Throws Error.
void ReadGgufKey(GgufReader& reader, GgufHeader& header);

}  // namespace so4cal
