// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lib/rotation_table.h"

namespace so4cal {

// The table as an HDF5 file in memory: the same table gives the same bytes, and a full disk is met when the
// bytes are written, not inside the library.
std::string TableToHdf5(const RotationTable& table, const std::string& file_name);
RotationTable TableFromHdf5(const std::filesystem::path& path);

}  // namespace so4cal
