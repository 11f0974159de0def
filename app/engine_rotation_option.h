// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lib/engine_rotation.h"

namespace so4cal {

// "none", "hadamard", "hadamard:64" or "signs:FILE", a text file of 1 and -1 with spaces, commas or line ends
// between them. Throws UsageError for other words, Error for a bad file.
EngineRotation ParseEngineRotation(const std::string& text);

}  // namespace so4cal
