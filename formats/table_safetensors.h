// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "formats/dense_table.h"
#include "lib/rotation_table.h"

namespace so4cal {

// FORMATS.md, "safetensors". The file holds the whole table; the dense rotations in it are for the reader's
// comfort and are held to the quaternions on reading (within 1e-6 per entry). Throws Error.
// A file of other tools is read for its layers.N.k_rotation and v_rotation, [H, d, d], with _offset [H, d]
// where it has them, in any floating-point type and with any prefix of the names.
void WriteTableSafetensors(const RotationTable& table, const std::filesystem::path& out);
RotationTable ReadTableSafetensors(const std::filesystem::path& path, const ReadOptions& options);

}  // namespace so4cal
