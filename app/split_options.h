// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calib/split.h"

namespace CLI {
class App;
}

namespace so4cal {

// --split, --skip-tokens and --fit-tokens: which tokens are fitted on, chosen on and reported on.
void AddSplitOptions(CLI::App& command, SplitOptions& split);

}  // namespace so4cal
