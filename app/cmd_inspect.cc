// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "app/commands.h"
#include "app/dump_options.h"
#include "app/inspection.h"
#include "app/parallel.h"

namespace so4cal {
namespace {

struct InspectArgs {
  std::vector<std::filesystem::path> dumps;
  DumpOptions dump;
  bool json = false;
};

int RunInspect(const InspectArgs& args) {
  args.dump.Check();
  const KvDump dump(args.dumps, args.dump);
  const std::vector<HeadInspection> heads = InspectHeads(dump);
  fmt::print("{}", args.json ? InspectionJson(dump, heads) : InspectionText(dump, heads));
  return kExitDone;
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<InspectArgs>();
  args->dump.allow_constant_heads = true;  // told in the table, not refused
  args->dump.allow_few_tokens = true;
  CLI::App* cmd = app.add_subcommand("inspect", "What a dump holds, and what will be hard to quantize");
  cmd->add_option("dumps", args->dumps, "Dump files (HDF5) of one model")->required();
  AddDumpOptions(*cmd, args->dump);
  cmd->add_flag("--json", args->json, "For machines");
  cmd->callback([args, &run] { run = [args] { return RunInspect(*args); }; });
}

}  // namespace so4cal
