// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/layer_list.h"
#include "app/output_path.h"
#include "formats/exporters.h"
#include "formats/table_io.h"
#include "formats/table_merge.h"
#include "lib/error.h"

namespace so4cal {
namespace {

struct MergeArgs {
  std::vector<std::filesystem::path> parts;
  std::filesystem::path out;
  std::string layers;
  bool force = false;
};

// Those that --layers lists, otherwise all that the dump has, as the first part says.
std::vector<int> WantedLayers(const MergeArgs& args, const RotationTable& first) {
  if (!args.layers.empty()) return ParseLayerList(args.layers);
  if (first.dump_layers.empty())
    throw Error(
        "'" + args.parts.front().string() +
        "': expected a table that so4cal fit wrote, found one without a dump; say with --layers which "
        "layers the table is to have");
  return {first.dump_layers.begin(), first.dump_layers.end()};
}

int RunMerge(const MergeArgs& args) {
  const Exporter& to = ExporterFor(args.out, "");
  if (to.name != "h5" && to.name != "json")
    throw UsageError("merge writes a table: expected an output that ends in .h5 or .json, found '" +
                     args.out.string() + "'");
  if (!args.layers.empty()) ParseLayerList(args.layers);  // judged before any file is read
  CheckOutputPath(args.out, args.parts, args.force);
  std::vector<TablePart> parts;
  for (const std::filesystem::path& part : args.parts) parts.push_back({part.string(), ReadTable(part)});
  const std::vector<int> layers = WantedLayers(args, parts.front().table);
  const RotationTable table = MergeTables(std::move(parts), layers);
  to.write(table, args.out);
  fmt::print("merged       {} parts: layers {}\nwrote        {} ({} bytes)\n", args.parts.size(),
             LayerListText(layers), args.out.string(), std::filesystem::file_size(args.out));
  return kExitDone;
}

}  // namespace

void AddMergeCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<MergeArgs>();
  CLI::App* cmd = app.add_subcommand("merge", "Join the tables of fit --shard or --layers into one");
  cmd->add_option("parts", args->parts, "Tables of one fit, each with other layers, in any order")
      ->required();
  cmd->add_option("-o,--out", args->out, "Table to write: .h5 or .json")->required();
  cmd->add_option("--layers", args->layers,
                  "Layers that the table must have, such as 0-7,12; all that the dump has when left out");
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunMerge(*args); }; });
}

}  // namespace so4cal
