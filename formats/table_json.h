// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "formats/table_archive.h"
#include "lib/rotation_table.h"

namespace so4cal {

// Takes over one large array (kLargeArrays), by its path "/layers/0/k/offset": stores it elsewhere on saving,
// fills it on loading. The JSON then has the name it returns in place of the values.
using ArrayStore = std::function<std::string(const std::string& path, ArrayRef values, const Shape& shape)>;

// The table as JSON: objects indented, one short row of an array per line. `where` names the file in errors.
std::string TableToJson(const RotationTable& table, const std::string& where,
                        const ArrayStore& store = nullptr);
RotationTable TableFromJson(std::string_view text, const std::string& where,
                            const ArrayStore& store = nullptr);

}  // namespace so4cal
