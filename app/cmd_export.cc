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
#include "formats/table_gguf.h"
#include "formats/table_io.h"
#include "lib/error.h"

namespace so4cal {
namespace {

struct ExportArgs {
  std::filesystem::path table, out, merge;
  std::string to;
  bool force = false;
};

constexpr char kMergeFormat[] = "gguf";

int RunExport(const ExportArgs& args) {
  const Exporter& exporter = ExporterFor(args.out, args.to);
  const bool merge = !args.merge.empty();
  if (merge && exporter.name != kMergeFormat)
    throw UsageError(fmt::format("--merge is for --to {}, not for {}", kMergeFormat, exporter.name));
  const std::array inputs{args.table, args.merge};
  const auto given = std::span(inputs).first(merge ? 2 : 1);
  exporter.folder() ? CheckOutputFolder(args.out, given, args.force)
                    : CheckOutputPath(args.out, given, args.force);
  const RotationTable table = ReadTable(args.table);
  merge ? MergeIntoGguf(table, args.merge, args.out) : exporter.write(table, args.out);
  fmt::print("wrote {} ({}, {} layers)\n", args.out.string(), exporter.name, table.layers.size());
  if (!exporter.note.empty()) fmt::print("note: {}\n", exporter.note);
  return kExitDone;
}

std::string ExporterHelp() {
  std::string text = "Format, when the extension of --out does not say it:";
  for (const Exporter& exporter : Exporters())
    text += fmt::format("\n{} ({}): {}", exporter.name, exporter.folder() ? "folder" : exporter.extension,
                        exporter.summary);
  return text;
}

}  // namespace

void AddExportCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<ExportArgs>();
  CLI::App* cmd = app.add_subcommand("export", "Write a fitted table for an inference engine");
  cmd->add_option("table", args->table, "Table from 'so4cal fit'")->required();
  cmd->add_option("-o,--out", args->out, "File or folder to write; the extension picks the format")
      ->required();
  cmd->add_option("--to", args->to, ExporterHelp());
  cmd->add_option("--merge", args->merge,
                  "With gguf: a model, whose keys and tensors are copied and followed by the rotations");
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunExport(*args); }; });
}

}  // namespace so4cal
