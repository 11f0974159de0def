// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace so4cal {

struct LogOptions {
  std::string level = "warning";  // of what goes to stderr
  std::string file;               // empty: none; otherwise everything from `info` up is appended
};

void AddLogOptions(CLI::App& app, LogOptions& options);

// Makes spdlog's default logger write to stderr (colour on terminals without NO_COLOR) and to the file.
// Throws Error when the file can't be opened.
void SetUpLogging(const LogOptions& options);

// stderr is a terminal that moves its cursor.
bool StderrIsTerminal();

}  // namespace so4cal
