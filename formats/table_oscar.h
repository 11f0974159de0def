// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "formats/dense_table.h"
#include "lib/rotation_table.h"

namespace so4cal {

// FORMATS.md, "oscar": a folder with k_rotation.pt and v_rotation.pt, as SGLang with OSCAR loads them. A
// value offset is refused: that engine subtracts one from keys only. Throws Error.
void WriteTableOscar(const RotationTable& table, const std::filesystem::path& out);

// Reads these two files, and those of OSCAR's own tools: K and V by name (k*.pt, v*.pt), 2-D or 3-D
// rotations, integer or text layer keys. Refuses what OSCAR's loader refuses, and companions for maps that
// are not orthogonal.
RotationTable ReadTableOscar(const std::filesystem::path& folder, const ReadOptions& options);

}  // namespace so4cal
