// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/hdf5_handle.h"

namespace so4cal {

// A new HDF5 file that grows layer by layer on disk: same content, same bytes (no times, fixed library
// version bounds). Everything throws Error. Not atomic by itself: write inside WriteAtomically.
class Hdf5FileWriter {
 public:
  // `shown` is the name for messages, where `path` is a temporary one.
  Hdf5FileWriter(const std::filesystem::path& path, const std::filesystem::path& shown);

  void Group(const std::string& path);
  // Attributes of an existing object, "/" for the root.
  void Text(const std::string& object, const char* name, const std::string& value);
  void Number(const std::string& object, const char* name, std::uint64_t value);

  // Little-endian on disk.
  void Dataset(const std::string& path, std::span<const std::uint8_t> values,
               const std::vector<hsize_t>& shape);
  void Dataset(const std::string& path, std::span<const float> values, const std::vector<hsize_t>& shape);
  void Dataset(const std::string& path, std::span<const std::int64_t> values,
               const std::vector<hsize_t>& shape);

  // Hands what was written to the operating system: a full disk shows up here and not at the end.
  void Flush();

 private:
  void Write(const std::string& path, hid_t stored, hid_t memory, const void* values,
             const std::vector<hsize_t>& shape);
  std::string Where(const std::string& object) const { return "can't write '" + shown_ + "': " + object; }

  QuietHdf5Errors quiet_;
  std::string shown_;
  Hid file_;
};

}  // namespace so4cal
