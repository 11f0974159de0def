// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/dump_options.h"
#include "app/verification.h"
#include "formats/exporters.h"
#include "formats/table_io.h"
#include "lib/error.h"

namespace so4cal {
namespace {

struct VerifyArgs {
  std::filesystem::path file, against;
  std::vector<std::filesystem::path> dumps;
  std::string to;
  DumpOptions options;
};

int RunVerify(const VerifyArgs& args) {
  args.options.Check();
  if (!std::filesystem::exists(args.file))  // before its name is asked for a format
    throw Error(args.file.string() + ": no such file, expected an export or a table");
  const Exporter& format = ExporterFor(args.file, args.to);
  const RotationTable table = format.read(args.file, {});
  std::vector<CheckResult> results = {{true, fmt::format("opened: {} as {}, {} layers", args.file.string(),
                                                         format.name, table.layers.size())},
                                      CheckOrthogonality(table),
                                      CheckOrthogonalityInBf16(table),
                                      CheckConvention(table)};
  std::optional<RotationTable> reference;
  if (!args.against.empty()) {
    reference = ReadTable(args.against);
    results.push_back(CheckAgainst(table, *reference));
  }
  if (!args.dumps.empty() && results.back().passed) {
    const KvDump dump(args.dumps, args.options);
    results.push_back(CheckReconstruction(table, reference ? &*reference : nullptr, dump));
  }
  std::size_t failed = 0;
  for (const CheckResult& result : results) {
    fmt::print("{} {}\n", result.passed ? "ok  " : "FAIL", result.text);
    failed += !result.passed;
  }
  if (failed == 0) return kExitDone;
  fmt::print(stderr, "so4cal: {} of {} checks of {} failed\n", failed, results.size(), args.file.string());
  return kExitFailed;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<VerifyArgs>();
  args->options.allow_constant_heads = true;
  args->options.allow_few_tokens = true;
  CLI::App* cmd =
      app.add_subcommand("verify", "Re-open a table or an export and check what an engine relies on");
  cmd->add_option("file", args->file, "Table, or file or folder from 'so4cal export'")->required();
  cmd->add_option("--against", args->against, "Table that it was exported from: the maps must be the same");
  cmd->add_option("--dump", args->dumps, "Dump files to send through the codec");
  cmd->add_option("--to", args->to, "Format, when the extension of the file does not say it");
  AddDumpOptions(*cmd, args->options);
  cmd->callback([args, &run] { run = [args] { return RunVerify(*args); }; });
}

}  // namespace so4cal
