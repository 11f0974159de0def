// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lib/rotation_table.h"

namespace so4cal {

// FORMATS.md, "safetensors". The file holds the whole table; the dense rotations in it are for the reader's
// comfort and are held to the quaternions on reading (within 1e-6 per entry). Throws Error.
void WriteTableSafetensors(const RotationTable& table, const std::filesystem::path& out);
RotationTable ReadTableSafetensors(const std::filesystem::path& path);

}  // namespace so4cal
