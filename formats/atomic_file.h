// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

namespace so4cal {

// Calls write(temporary path in the folder of `out`), syncs, renames to `out`. On any exception the
// temporary file is removed and `out` is as it was. Throws Error when the folder is missing or not writable
// or the disk is full, with the reason.
void WriteAtomically(const std::filesystem::path& out,
                     const std::function<void(const std::filesystem::path&)>& write);

}  // namespace so4cal
