// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lib/rotation_table.h"

namespace so4cal {

// JSON for kFoldNoteName in a folded model's folder: which table is in the weights, and which engine rotation
// they are made for. formats/FORMATS.md, "Folded models".
std::string FoldNoteJson(const RotationTable& table, const std::filesystem::path& table_file,
                         const std::string& engine_rotation);

}  // namespace so4cal
