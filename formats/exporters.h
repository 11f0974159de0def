// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lib/rotation_table.h"

namespace so4cal {

// One row per export format; the only place to add one is the table in exporters.cc.
struct Exporter {
  std::string_view name;       // value of --to
  std::string_view extension;  // picks the format when --to is not given
  std::string_view summary;    // for --help and `info`
  // Writes atomically, the same bytes for the same table. Throws Error for what the format cannot carry,
  // naming the fit option that avoids it.
  void (*write)(const RotationTable& table, const std::filesystem::path& out);
  // Reads back what `write` wrote, for `verify`. Formats that keep less than the table fill in what they
  // keep.
  RotationTable (*read)(const std::filesystem::path& path);
};
std::span<const Exporter> Exporters();

// By --to, or by extension when `to` is empty. Throws UsageError "expected one of ...".
const Exporter& ExporterFor(const std::filesystem::path& out, std::string_view to);

}  // namespace so4cal
