// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "formats/gguf.h"

namespace so4cal {

// What stands in a model's description, not in its tensors, and keeps value rotations from being folded:
// throws Error with the reason and what to do.

// config.json (it need not be there; text_config in it counts too), an adapter beside it, a fold's own note.
void CheckModelFolder(const std::filesystem::path& folder);

// The keys of a GGUF file: split files, shared caches, a clamp.
void CheckGgufKeys(const GgufHeader& header, const std::filesystem::path& path);

}  // namespace so4cal
