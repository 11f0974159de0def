// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "app/commands.h"
#include "app/logging.h"
#include "lib/error.h"
#include "lib/version.h"

namespace so4cal {
namespace {

// Scripts read one line per error: "so4cal: " and the reason.
void PrintError(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "so4cal: %s\n", message.c_str());
}

// --help and --version arrive as parse errors with exit code 0.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  if (const auto rest = app.remaining(); app.get_subcommands().empty() && !rest.empty()) {
    PrintError("'" + rest.front() + "' is not a command (see 'so4cal --help')");
    return kExitUsage;
  }
  std::string command = app.get_name();
  for (const CLI::App* sub : app.get_subcommands()) command += ' ' + sub->get_name();
  PrintError(std::string(error.what()) + " (see '" + command + " --help')");
  return kExitUsage;
}

int Main(int argc, char** argv) {
  CLI::App app{"Fits per-head SO(4) rotations to dumped K/V cache activations", "so4cal"};
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.fallthrough();  // --log-level and --log-file may follow the command
  LogOptions log;
  AddLogOptions(app, log);
  CommandRun run;
       {AddInspectCommand, AddFitCommand, AddMergeCommand, AddPlanCommand, AddReportCommand, AddExportCommand,
        AddImportCommand, AddFoldCommand, AddVerifyCommand, AddEncodeCommand, AddDecodeCommand, AddInfoCommand})
    add(app, run);
       try {
         app.parse(argc, argv);
         SetUpLogging(log);
         const int exit_code = run();
         if (std::fflush(stdout) != 0)
           throw Error("can't write to standard output: " + std::string(std::strerror(errno)));
         return exit_code;
       } catch (const CLI::ParseError& error) {
         return ReportParseError(app, error);
       } catch (const UsageError& error) {
         PrintError(error.what());
         return kExitUsage;
       } catch (const std::exception& error) {
         PrintError(error.what());
         return kExitFailed;
       }
}

}  // namespace
}  // namespace so4cal

int main(int argc, char** argv) { return so4cal::Main(argc, argv); }
