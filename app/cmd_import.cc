// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/output_path.h"
#include "app/side_options.h"
#include "formats/exporters.h"
#include "lib/error.h"

namespace so4cal {
namespace {

struct ImportArgs {
  std::filesystem::path file, out;
  std::string from;
  std::map<std::string_view, std::string> codec;  // --bits, --block, --grid, --scale as given
  int num_kv_heads = 0;
  bool force = false;
};

constexpr std::string_view kCodecOptions[] = {"--bits", "--block", "--grid", "--scale"};

ReadOptions ReadOptionsOf(const ImportArgs& args) {
  std::array<SideOptions, 2> sides;
  for (const SideOption& option : SideOptionTable())
    if (const auto given = args.codec.find(option.name); given != args.codec.end() && !given->second.empty())
      ApplySideOption(option, given->second, sides);
  for (const SideOptions& side : sides) side.Check();
  return {[sides](Side side, int head_dim) { return sides[static_cast<std::size_t>(side)].Codec(head_dim); },
          args.num_kv_heads};
}

// "2 layers: k so4 x 3 heads, v dense x 3 heads", as far as all layers are alike.
std::string Describe(const RotationTable& table) {
  std::map<std::string, std::size_t> found;
  for (const LayerTable& layer : table.layers)
    for (const Side s : kSides) {
      const SideTable& side = layer.side(s);
      ++found[fmt::format("{}: {} heads, {}, {} bits, blocks of {}", SideName(s), side.heads.size(),
                          NameOf(Families(), side.family), side.codec.bits, side.codec.block)];
    }
  std::string text;
  for (const auto& [what, layers] : found) text += fmt::format("  {} ({} layers)\n", what, layers);
  for (const auto& [reason, count] : table.TotalCounts()) text += fmt::format("  {} {}\n", count, reason);
  return text;
}

int RunImport(const ImportArgs& args) {
  if (!std::filesystem::exists(args.file))
    throw Error(args.file.string() + ": no such file or folder, expected rotations to import");
  const Exporter& from = ExporterFor(args.file, args.from);
  const Exporter& to = ExporterFor(args.out, "");
  if (to.name != "h5" && to.name != "json")
    throw UsageError("import writes a table: expected an output that ends in .h5 or .json, found '" +
                     args.out.string() + "'");
  const std::array inputs{args.file};
  CheckOutputPath(args.out, inputs, args.force);
  const RotationTable table = from.read(args.file, ReadOptionsOf(args));
  to.write(table, args.out);
  fmt::print("wrote {} ({} as {}, {} layers)\n{}", args.out.string(), args.file.string(), from.name,
             table.layers.size(), Describe(table));
  return kExitDone;
}

}  // namespace

void AddImportCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<ImportArgs>();
  CLI::App* cmd = app.add_subcommand(
      "import", "Make a table of another tool's rotations, so that they can be reported and compared");
  cmd->add_option("file", args->file, "File or folder of an export format, of so4cal or of another tool")
      ->required();
  cmd->add_option("-o,--out", args->out, "Table to write (.so4.h5 or .json)")->required();
  cmd->add_option("--from", args->from, "Format, when the extension of the file does not say it");
  for (const SideOption& option : SideOptionTable())
    for (const std::string_view name : kCodecOptions)
      if (option.name == name)
        cmd->add_option(std::string(name), args->codec[name],
                        fmt::format("{}, where the file does not say: {}; k=...,v=... for each side",
                                    option.summary, option.choices()));
  cmd->add_option("--kv-heads", args->num_kv_heads,
                  "KV heads of the model, for files with one rotation per layer")
      ->check(CLI::Range(1, 1024));
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunImport(*args); }; });
}

}  // namespace so4cal
