// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace so4cal {

// Ranges of a file that may be larger than memory. Throws Error with the file's name and the reason. Several
// threads may read and write ranges that do not overlap.
class FileAccess {
 public:
  // kOverwrite: an existing file, whose size stays. kCreate: a new file, which grows.
  enum class Mode { kRead, kOverwrite, kCreate };
  FileAccess(const std::filesystem::path& path, Mode mode);
  ~FileAccess();
  FileAccess(const FileAccess&) = delete;
  FileAccess& operator=(const FileAccess&) = delete;

  std::uint64_t size() const { return size_; }  // when it was opened
  std::string Read(std::uint64_t begin, std::uint64_t num_bytes) const;
  void Write(std::uint64_t begin, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
  Mode mode_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace so4cal
