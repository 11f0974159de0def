// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "formats/dense_table.h"
#include "lib/rotation_table.h"

namespace so4cal {

// FORMATS.md, "gguf": blk.N.attn_k_rot.weight and attn_v_rot.weight, f32, row-major U, one per layer and
// side. Throws Error where the heads of a layer differ (fit with --share layer) or have offsets (--offset
// none).
void WriteTableGguf(const RotationTable& table, const std::filesystem::path& out);

// The same tensors behind those of a model: every key and tensor of the model byte for byte, at most 4 MiB of
// its data in memory at a time. Throws Error where the model has other layers or head sizes, or rotations
// already.
void MergeIntoGguf(const RotationTable& table, const std::filesystem::path& model,
                   const std::filesystem::path& out);

// Reads the rotations of a sidecar or of a merged model.
RotationTable ReadTableGguf(const std::filesystem::path& path, const ReadOptions& options);

}  // namespace so4cal
