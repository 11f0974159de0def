// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

namespace so4cal {

// Calls write(temporary folder beside `out`), syncs every file in it, renames it to `out`. On any exception
// the temporary folder is removed and `out` is as it was. A folder that is there already is moved aside, and
// removed once the new one has its name. Throws Error with the reason when `out` is a file, or its parent is
// missing or not writable.
void WriteFolderAtomically(const std::filesystem::path& out,
                           const std::function<void(const std::filesystem::path& temporary)>& write);

}  // namespace so4cal
