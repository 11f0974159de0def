// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/table_archive.h"
#include "lib/rotation_table.h"

namespace so4cal {

// All fields of a rotation table, FORMATS.md "The rotation table". Saving writes `table`; loading fills it
// and validates everything, RotationTable::Check() included. Throws Error.
void TableFields(TableArchive& root, RotationTable& table);

// The fields of a side that grow with head_dim: exporters may keep them apart from the rest.
inline constexpr const char* kLargeArrays[] = {"quaternions", "dense", "offset", "signs", "metric"};

}  // namespace so4cal
