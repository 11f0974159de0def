// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/table_archive.h"
#include "lib/rotation_table.h"

namespace so4cal {

// All fields of a rotation table, FORMATS.md "The rotation table". Saving writes `table`; loading fills it
// and validates everything, RotationTable::Check() included. Throws Error.
void TableFields(TableArchive& root, RotationTable& table);

// Lower-case names of the two sides' groups and of the arrays that are large: exporters keep those apart.
inline constexpr const char* kLargeArrays[] = {"quaternions", "dense", "offset", "signs", "metric"};

}  // namespace so4cal
