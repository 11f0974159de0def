// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/dump_options.h"
#include "app/output_path.h"
#include "app/report.h"
#include "formats/atomic_file.h"
#include "formats/table_io.h"
#include "lib/error.h"

namespace so4cal {
namespace {

struct ReportArgs {
  std::filesystem::path table, out;
  std::vector<std::filesystem::path> dumps;
  DumpOptions dump;
  bool force = false;
};

struct ReportFormat {
  std::string_view extension;
  std::string (*write)(const Report& report);
};
constexpr ReportFormat kReportFormats[] = {
    {".html", ReportHtml}, {".json", ReportJson}, {".csv", ReportCsv}, {".txt", ReportText}};

std::string KnownExtensions() {
  std::string all;
  for (const ReportFormat& format : kReportFormats)
    all.append(all.empty() ? "" : ", ").append(format.extension);
  return all;
}

const ReportFormat& FormatFor(const std::filesystem::path& out) {
  for (const ReportFormat& format : kReportFormats)
    if (out.extension() == format.extension) return format;
  throw UsageError("--out is " + out.string() + ", expected a name that ends in one of " + KnownExtensions());
}

int RunReport(const ReportArgs& args) {
  args.dump.Check();
  const ReportFormat* format = args.out.empty() ? nullptr : &FormatFor(args.out);
  if (format != nullptr) {
    std::vector<std::filesystem::path> inputs = args.dumps;
    inputs.push_back(args.table);
    CheckOutputPath(args.out, inputs, args.force);
  }
  const RotationTable table = ReadTable(args.table);
  const KvDump dump(args.dumps, args.dump);
  const Report report = MeasureReport(args.table, table, dump);
  if (format == nullptr) {
    fmt::print("{}", ReportText(report));
  } else {
    WriteBytesAtomically(args.out, format->write(report));
    fmt::print("wrote {} ({} heads, {} test tokens)\n", args.out.string(), report.heads.size(),
               report.test_tokens);
  }
  return kExitDone;
}

}  // namespace

void AddReportCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<ReportArgs>();
  args->dump.allow_constant_heads = true;  // the fit has decided about them
  args->dump.allow_few_tokens = true;
  CLI::App* cmd =
      app.add_subcommand("report", "Error per head before and after, on tokens the fit never saw");
  cmd->add_option("table", args->table, "Table from 'so4cal fit'")->required();
  cmd->add_option("dumps", args->dumps,
                  "Dump files: those fitted on (its test tokens are used) or others (all)")
      ->required();
  cmd->add_option("-o,--out", args->out, "Write to a file instead of the terminal: " + KnownExtensions());
  AddDumpOptions(*cmd, args->dump);
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunReport(*args); }; });
}

}  // namespace so4cal
