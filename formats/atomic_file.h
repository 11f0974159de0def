// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace so4cal {

// Calls write(temporary path in the folder of `out`), syncs, renames to `out`. On any exception the
// temporary file is removed and `out` is as it was. A symbolic link is followed: the file it names is
// replaced. Throws Error when the folder is missing or not writable, `out` is no regular file, or the disk
// is full, with the reason.
void WriteAtomically(const std::filesystem::path& out,
                     const std::function<void(const std::filesystem::path&)>& write);

// WriteAtomically of these bytes.
void WriteBytesAtomically(const std::filesystem::path& out, std::string_view bytes);

// All bytes of a regular file. Throws Error when it is missing, unreadable or no regular file.
std::string ReadFileBytes(const std::filesystem::path& path);

}  // namespace so4cal
