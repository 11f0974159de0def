// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

namespace so4cal {

// Throws Error when `out` can't become the result of a run that reads `inputs`: it is one of them (by
// whatever name), it exists and `force` is false, it is a folder or a device, or its folder is missing or not
// writable. Called before the work, so that an hour of fitting is not lost to a typing error.
void CheckOutputPath(const std::filesystem::path& out, std::span<const std::filesystem::path> inputs,
                     bool force);

// The same for a result that is a folder: `out` must be a new name, or with `force` a folder. It must not lie
// inside an input.
void CheckOutputFolder(const std::filesystem::path& out, std::span<const std::filesystem::path> inputs,
                       bool force);

}  // namespace so4cal
