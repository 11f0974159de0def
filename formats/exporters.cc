// SPDX-License-Identifier: Apache-2.0
#include "formats/exporters.h"

#include "formats/c_header.h"
#include "formats/table_io.h"
#include "formats/table_safetensors.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr Exporter kExporters[] = {
    {"h5", ".h5", "the native table (HDF5), read by every command of so4cal", &WriteTableHdf5, &ReadTable},
    {"json", ".json", "the native table as readable JSON, for review and for tests", &WriteTableJson,
     &ReadTable},
    {"safetensors", ".safetensors",
     "dense rotations, quaternions and offsets, for transformers, vLLM and research code",
     &WriteTableSafetensors, &ReadTableSafetensors},
    {"c", ".h", "a C header with the head tables of so4codec.h, for embedded engines", &WriteCHeader,
     &ReadCHeader},
};

}  // namespace

std::span<const Exporter> Exporters() { return kExporters; }

const Exporter& ExporterFor(const std::filesystem::path& out, std::string_view to) {
  std::string names, extensions;
  for (const Exporter& exporter : kExporters) {
    if (to.empty() ? out.extension() == exporter.extension : to == exporter.name) return exporter;
    names.append(names.empty() ? "" : ", ").append(exporter.name);
    extensions.append(extensions.empty() ? "" : ", ").append(exporter.extension);
  }
  if (!to.empty()) throw UsageError("--to is '" + std::string(to) + "', expected one of " + names);
  throw UsageError("can't tell the format of '" + out.string() + "' by its extension, expected one of " +
                   extensions + "; or name the format: --to one of " + names);
}

}  // namespace so4cal
