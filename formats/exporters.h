// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "formats/dense_table.h"
#include "lib/rotation_table.h"

namespace so4cal {

// One row per export format; the only place to add one is the table in exporters.cc.
struct Exporter {
  std::string_view name;       // value of --to
  std::string_view extension;  // picks the format when --to is not given; empty: a folder
  std::string_view summary;    // for --help and `info`
  std::string_view note;  // what a user must know of the engine's numbers, printed by `export`; may be empty
  // Writes atomically, the same bytes for the same table. Throws Error for what the format cannot carry,
  // naming the fit option that avoids it.
  void (*write)(const RotationTable& table, const std::filesystem::path& out);
  // Reads back what `write` wrote, and files of other tools in that format, for `verify` and `import`.
  // Formats that keep less than the table fill in what they keep.
  RotationTable (*read)(const std::filesystem::path& path, const ReadOptions& options);

  bool folder() const { return extension.empty(); }
};
std::span<const Exporter> Exporters();

// By --to, or when `to` is empty by extension, or because `out` is a folder. Throws UsageError "expected one
// of ...".
const Exporter& ExporterFor(const std::filesystem::path& out, std::string_view to);

}  // namespace so4cal
