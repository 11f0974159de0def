// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace so4cal {

// Exit codes of every command.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;         // bad input, a failed check, --strict
inline constexpr int kExitUsage = 2;          // the command line itself is wrong
inline constexpr int kExitInterrupted = 130;  // SIGINT, SIGTERM; nothing half written

// What main() runs once the whole command line is parsed; returns the exit code.
using CommandRun = std::function<int()>;

// Each adds one subcommand to `app`; parsing it sets `run`.
void AddInspectCommand(CLI::App& app, CommandRun& run);
void AddFitCommand(CLI::App& app, CommandRun& run);
void AddMergeCommand(CLI::App& app, CommandRun& run);
void AddPlanCommand(CLI::App& app, CommandRun& run);
void AddReportCommand(CLI::App& app, CommandRun& run);
void AddExportCommand(CLI::App& app, CommandRun& run);
void AddImportCommand(CLI::App& app, CommandRun& run);
void AddFoldCommand(CLI::App& app, CommandRun& run);
void AddVerifyCommand(CLI::App& app, CommandRun& run);
void AddEncodeCommand(CLI::App& app, CommandRun& run);
void AddDecodeCommand(CLI::App& app, CommandRun& run);
void AddInfoCommand(CLI::App& app, CommandRun& run);

}  // namespace so4cal
