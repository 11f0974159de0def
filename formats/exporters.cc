// SPDX-License-Identifier: Apache-2.0
#include "formats/exporters.h"

#include "formats/c_header.h"
#include "formats/table_gguf.h"
#include "formats/table_io.h"
#include "formats/table_onnx.h"
#include "formats/table_oscar.h"
#include "formats/table_safetensors.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr char kOtherCodec[] =
    "errors that so4cal reports are for the table's codec and rounding, not for that engine's own quantizer";

// Formats that hold the whole table have nothing to fill in.
template <RotationTable (*kRead)(const std::filesystem::path&)>
RotationTable ReadWhole(const std::filesystem::path& path, const ReadOptions&) {
  return kRead(path);
}

constexpr Exporter kExporters[] = {
    {"h5", ".h5", "the native table (HDF5), read by every command of so4cal", "", &WriteTableHdf5,
     &ReadWhole<ReadTable>},
    {"json", ".json", "the native table as readable JSON, for review and for tests", "", &WriteTableJson,
     &ReadWhole<ReadTable>},
    {"safetensors", ".safetensors",
     "dense rotations, quaternions and offsets, for transformers, vLLM and research code", "",
     &WriteTableSafetensors, &ReadTableSafetensors},
    {"oscar", "", "a folder of two .pt files with dense rotations, for SGLang with OSCAR and its ports",
     kOtherCodec, &WriteTableOscar, &ReadTableOscar},
    {"gguf", ".gguf",
     "one dense rotation per layer, for llama.cpp forks with OSCAR; alone or merged into a model",
     kOtherCodec, &WriteTableGguf, &ReadTableGguf},
    {"onnx", ".onnx", "initializers for ONNX Runtime's MixedPrecisionGroupQueryAttention", kOtherCodec,
     &WriteTableOnnx, &ReadTableOnnx},
    {"c", ".h", "a C header with the head tables of so4codec.h, for embedded engines", "", &WriteCHeader,
     &ReadWhole<ReadCHeader>},
};

}  // namespace

std::span<const Exporter> Exporters() { return kExporters; }

const Exporter& ExporterFor(const std::filesystem::path& out, std::string_view to) {
  std::string names, extensions;
  for (const Exporter& exporter : kExporters) {
    const bool fits =
        exporter.folder() ? std::filesystem::is_directory(out) : out.extension() == exporter.extension;
    if (to.empty() ? fits : to == exporter.name) return exporter;
    names.append(names.empty() ? "" : ", ").append(exporter.name);
    if (!exporter.folder()) extensions.append(extensions.empty() ? "" : ", ").append(exporter.extension);
  }
  if (!to.empty()) throw UsageError("--to is '" + std::string(to) + "', expected one of " + names);
  throw UsageError("can't tell the format of '" + out.string() + "' by its extension, expected one of " +
                   extensions + "; or name the format: --to one of " + names);
}

}  // namespace so4cal
