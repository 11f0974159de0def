// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lib/rotation_table.h"

namespace so4cal {

// Reads a native table, HDF5 or JSON, told apart by content. Validates everything; throws Error.
RotationTable ReadTable(const std::filesystem::path& path);

// Atomic; the same table gives the same bytes. Parent folder must exist.
void WriteTableHdf5(const RotationTable& table, const std::filesystem::path& out);
void WriteTableJson(const RotationTable& table, const std::filesystem::path& out);

}  // namespace so4cal
