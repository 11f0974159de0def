// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "formats/dense_table.h"
#include "lib/rotation_table.h"

namespace so4cal {

// FORMATS.md, "onnx": a model without nodes that holds the initializers layers.N.oscar_rotation_k and _v, [H,
// d, d], for the inputs of the same name of MixedPrecisionGroupQueryAttention. Offsets are refused. Throws
// Error.
void WriteTableOnnx(const RotationTable& table, const std::filesystem::path& out);
RotationTable ReadTableOnnx(const std::filesystem::path& path, const ReadOptions& options);

}  // namespace so4cal
