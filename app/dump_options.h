// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/kv_dump.h"

namespace CLI {
class App;
}

namespace so4cal {

// The options by which every command that opens a dump is told how to find its datasets.
void AddDumpOptions(CLI::App& command, DumpOptions& options);

}  // namespace so4cal
