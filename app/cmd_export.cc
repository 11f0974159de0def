// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/output_path.h"
#include "formats/exporters.h"
#include "formats/table_io.h"

namespace so4cal {
namespace {

struct ExportArgs {
  std::filesystem::path table, out;
  std::string to;
  bool force = false;
};

int RunExport(const ExportArgs& args) {
  const Exporter& exporter = ExporterFor(args.out, args.to);
  CheckOutputPath(args.out, std::array{args.table}, args.force);
  const RotationTable table = ReadTable(args.table);
  exporter.write(table, args.out);
  fmt::print("wrote {} ({}, {} layers)\n", args.out.string(), exporter.name, table.layers.size());
  return kExitDone;
}

std::string ExporterHelp() {
  std::string text = "Format, when the extension of --out does not say it:";
  for (const Exporter& exporter : Exporters())
    text += fmt::format("\n{} ({}): {}", exporter.name, exporter.extension, exporter.summary);
  return text;
}

}  // namespace

void AddExportCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<ExportArgs>();
  CLI::App* cmd = app.add_subcommand("export", "Write a fitted table for an inference engine");
  cmd->add_option("table", args->table, "Table from 'so4cal fit'")->required();
  cmd->add_option("-o,--out", args->out, "File to write; the extension picks the format")->required();
  cmd->add_option("--to", args->to, ExporterHelp());
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunExport(*args); }; });
}

}  // namespace so4cal
