// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lib/rotation_table.h"

namespace so4cal {

// FORMATS.md, "c": the head tables of lib/so4codec.h as byte arrays in one C99 / C++ header. Throws Error.
void WriteCHeader(const RotationTable& table, const std::filesystem::path& out);

// Reads exactly what WriteCHeader writes. The bytes keep codec and map of every head (in float precision);
// family is inferred from the strides, the rest of the table is not in the file.
RotationTable ReadCHeader(const std::filesystem::path& path);

}  // namespace so4cal
