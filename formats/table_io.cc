// SPDX-License-Identifier: Apache-2.0
#include "formats/table_io.h"

#include <fstream>

#include "formats/atomic_file.h"
#include "formats/table_hdf5.h"
#include "formats/table_json.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::string_view kHdf5Magic = "\x89HDF\r\n\x1a\n";

// The first 8 bytes, fewer in a shorter file.
std::string Magic(const std::filesystem::path& path) {
  std::string magic(8, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(magic.data(), static_cast<std::streamsize>(magic.size()));
  magic.resize(static_cast<std::size_t>(file.gcount()));
  return magic;
}

}  // namespace

RotationTable ReadTable(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    const std::string magic = Magic(path);
    if (magic == kHdf5Magic) return TableFromHdf5(path);
    const std::size_t start = magic.find_first_not_of(" \t\r\n");
    if (start != std::string::npos && magic[start] == '{')
      return TableFromJson(ReadFileBytes(path), path.string());
  }
  ReadFileBytes(path);  // missing, a folder or unreadable: says why
  throw Error("'" + path.string() +
              "': expected a rotation table (HDF5 or JSON, as `so4cal fit` writes it), found " +
              (std::filesystem::file_size(path) == 0 ? "an empty file" : "neither"));
}

void WriteTableHdf5(const RotationTable& table, const std::filesystem::path& out) {
  WriteBytesAtomically(out, TableToHdf5(table, out.string()));
}

void WriteTableJson(const RotationTable& table, const std::filesystem::path& out) {
  WriteBytesAtomically(out, TableToJson(table, out.string()));
}

}  // namespace so4cal
