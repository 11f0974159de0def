// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "app/dump_options.h"
#include "app/fit_estimate.h"
#include "app/fit_job.h"
#include "app/fit_summary.h"
#include "app/interrupt.h"
#include "app/layer_list.h"
#include "app/output_path.h"
#include "app/progress.h"
#include "app/resume.h"
#include "app/shard.h"
#include "app/side_options.h"
#include "app/split_options.h"
#include "app/validators.h"
#include "formats/partial_table.h"
#include "formats/plan_file.h"
#include "formats/table_io.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

struct FitArgs {
  std::vector<fs::path> dumps;
  fs::path out;
  FitJob job;
  std::string preset = "best";
  std::vector<std::pair<const SideOption*, std::string>> side_options;  // those given, in order
  std::string layers;
  std::optional<std::string> shard;
  fs::path plan;
  std::optional<std::uint64_t> memory_limit;  // bytes
  bool strict = false, force = false, verbose = false, dry_run = false;
};

// The two native forms, by extension.
bool IsJson(const fs::path& out) {
  if (out.extension() == ".json") return true;
  if (out.extension() == ".h5") return false;
  throw UsageError("--out is " + out.string() +
                   ", expected a name that ends in .h5 or .json; 'so4cal export' "
                   "writes other formats from a table");
}

// A preset sets the sides; options given explicitly override it whatever their order.
void ResolveOptions(FitArgs& args) {
  for (const Preset& preset : Presets())
    if (preset.name == args.preset) args.job.fit.sides = preset.options.sides;
  for (const auto& [option, text] : args.side_options) ApplySideOption(*option, text, args.job.fit.sides);
  if (!args.layers.empty()) args.job.layers = ParseLayerList(args.layers);
  if (args.shard) ParseShard(*args.shard);  // judged before any file is read
  args.job.fit.Check();
  args.job.dump.Check();
}

// The plan takes the place of --bits and --block.
void ResolvePlan(FitArgs& args) {
  if (args.plan.empty()) return;
  for (const auto& [option, text] : args.side_options)
    if (option->name == "--bits" || option->name == "--block")
      throw UsageError(std::string(option->name) + " with --plan, which sets it: expected one of them");
  for (const PlanFile::Row& row : ReadPlanFile(args.plan).rows)
    args.job.fit.plan[row.layer][static_cast<std::size_t>(row.side)] = BitChoice{row.bits, row.block};
}

void ResolveLayers(const KvDump& dump, FitArgs& args) {
  if (args.job.layers.empty())
    for (const LayerInfo& layer : dump.layers()) args.job.layers.push_back(layer.layer);
  if (args.shard) args.job.layers = ShardLayers(args.job.layers, ParseShard(*args.shard));
  for (const int layer : args.job.layers) {  // options that do not fit the data are told before the first fit
    args.job.fit.ForLayer(layer, Side::kKey).Codec(dump.layer(layer).k.channels);
    args.job.fit.ForLayer(layer, Side::kValue).Codec(dump.layer(layer).v.channels);
  }
}

// Fits the layers that are not finished; each goes to `partial` when it is.
std::optional<RotationTable> Fit(const KvDump& dump, const FitArgs& args, std::vector<LayerTable> finished,
                                 PartialTable& partial, Progress& progress) {
  RotationTable one_layer = TableWithoutLayers(dump, args.job);
  FitJobCallbacks callbacks;
  callbacks.progress = [&](const FitProgress& p) {
    progress.Update(p.heads_done, p.heads_total);
    return !Interrupted();
  };
  callbacks.layer_done = [&](const LayerTable& layer) {
    one_layer.layers = {layer};
    partial.Add(one_layer);
    progress.Milestone(fmt::format("layer {} done", layer.layer));
    spdlog::info("layer {} fitted after {}", layer.layer, DurationText(progress.seconds()));
    if (args.verbose)
      for (const std::string& line : HeadLines(layer)) progress.Line(line);
  };
  return RunFitJob(dump, args.job, std::move(finished), callbacks);
}

// What an interrupted or failed fit leaves.
std::string KeptText(const PartialTable& partial) {
  const std::vector<int> layers = partial.Layers();
  if (layers.empty()) return "no layer was finished";
  return fmt::format("finished layers ({}) are kept in {}: the same command goes on from there",
                     LayerListText(layers), partial.folder().string());
}

// The table, after what an earlier run has finished; nothing when interrupted.
std::optional<RotationTable> FitOrResume(const KvDump& dump, const FitArgs& args, PartialTable& partial,
                                         double& seconds) {
  if (!partial.locked())
    spdlog::warn("{}: this file system has no locks, so don't run the same command twice at a time",
                 partial.folder().string());
  auto finished = ResumableLayers(partial, TableWithoutLayers(dump, args.job), dump, args.job.layers);
  if (!finished) return {};
  if (!finished->empty()) {
    fmt::print("resumed      {}, with layers {} finished\n", partial.folder().string(),
               LayerListText(partial.Layers()));
    std::fflush(stdout);  // before the hours of work
  }
  spdlog::info("fitting {} layers", args.job.layers.size() - finished->size());
  Progress progress("fit");
  try {
    auto table = Fit(dump, args, std::move(*finished), partial, progress);
    seconds = progress.seconds();
    return table;
  } catch (const Error& error) {
    if (partial.Layers().empty()) throw;
    throw Error(std::string(error.what()) + "; " + KeptText(partial));
  }
}

void CheckMemory(const KvDump& dump, const FitArgs& args) {
  const std::uint64_t needed = EstimateMemory(dump, args.job);
  if (args.memory_limit && needed > *args.memory_limit)
    throw Error(fmt::format(
        "--memory-limit is {}, and the fit needs about {}: use fewer --threads, a dump with fewer "
        "tokens, or a higher limit",
        BytesText(*args.memory_limit), BytesText(needed)));
}

int RunDry(const KvDump& dump, const FitArgs& args) {
  const FitJob& job = args.job;
  const TokenSplit split = SplitOfJob(dump, job);
  fmt::print("tokens       {}: {} fit, {} validation, {} test\n", dump.num_tokens(), NumTokens(split.fit),
             NumTokens(split.validation), NumTokens(split.test));
  fmt::print("heads        {} (keys and values) of {} layers: {}\n", NumHeads(dump, job), job.layers.size(),
             LayerListText(job.layers));
  fmt::print("memory       about {} at most\n", BytesText(EstimateMemory(dump, job)));
  std::fflush(stdout);
  const auto time = EstimateTime(dump, job);
  if (!time) {
    fmt::print(stderr, "so4cal: interrupted\n");
    return kExitInterrupted;
  }
  fmt::print("time         about {} with {} threads: {} heads of layer {} took {}\n",
             DurationText(time->seconds), time->threads, time->heads, time->layer,
             DurationText(time->measured_seconds));
  fmt::print("dry run      {} was not written\n", args.out.string());
  return kExitDone;
}

int RunFit(FitArgs& args) {
  ResolveOptions(args);
  ResolvePlan(args);
  const bool json = IsJson(args.out);
  std::vector<fs::path> inputs = args.dumps;
  if (!args.plan.empty()) inputs.push_back(args.plan);
  CheckOutputPath(args.out, inputs, args.force);
  const KvDump dump(args.dumps, args.job.dump);
  ResolveLayers(dump, args);
  CheckMemory(dump, args);

  CatchInterrupts();
  if (args.dry_run) return RunDry(dump, args);
  PartialTable partial(args.out);
  double seconds = 0;
  const std::optional<RotationTable> table = FitOrResume(dump, args, partial, seconds);
  if (!table) {
    fmt::print(stderr, "so4cal: interrupted; {} was not written; {}\n", args.out.string(), KeptText(partial));
    return kExitInterrupted;
  }
  (json ? WriteTableJson : WriteTableHdf5)(*table, args.out);
  partial.Remove();
  fmt::print("{}", FitSummary(*table, dump, seconds));
  fmt::print("wrote        {} ({} bytes)\n", args.out.string(), fs::file_size(args.out));
  if (!args.strict || !CountTroubles(*table).any()) return kExitDone;
  fmt::print(
      stderr,
      "so4cal: --strict: the table is written, but some heads are not fitted as asked (see the summary)\n");
  return kExitFailed;
}

// --bits, --grid, ...: the text is checked while parsing and applied after the preset.
void AddSideOptions(CLI::App& cmd, FitArgs& args) {
  for (const SideOption& option : SideOptionTable()) {
    const auto check = [&option](std::string& text) {
      std::array<SideOptions, 2> scratch;
      return ReasonOf([&] { ApplySideOption(option, text, scratch); });
    };
    cmd.add_option_function<std::string>(
           std::string(option.name),
           [&args, &option](const std::string& text) { args.side_options.emplace_back(&option, text); },
           fmt::format("{}, for both sides or k=X,v=X: {} ({})", option.summary, option.choices(),
                       PresetValues(option)))
        ->check(CLI::Validator(check, ""))
        ->type_name("X");
  }
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.emplace_back(preset.name);
  return names;
}

}  // namespace

void AddFitCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<FitArgs>();
  CLI::App* cmd = app.add_subcommand("fit", "Fit rotations to a dump of K/V activations and write a table");
  cmd->add_option("dumps", args->dumps, "Dump files (HDF5) of one model, each a new sequence")->required();
  cmd->add_option("-o,--out", args->out, "Table to write: .h5 or .json")->required();
  cmd->add_option("--preset", args->preset,
                  "Values of all options not given: best, or seed for the original method")
      ->check(CLI::IsMember(PresetNames()))
      ->capture_default_str();
  AddSideOptions(*cmd, *args);
  AddSplitOptions(*cmd, args->job.fit.split);
  cmd->add_option("--plan", args->plan, "Bits and blocks per layer and side, as 'so4cal plan -o' wrote them");
  cmd->add_option("--max-iterations", args->job.fit.max_iterations, "Of the solver, per independent problem")
      ->capture_default_str();
  cmd->add_option("--threads", args->job.fit.threads, "0: all cores; the result is the same at any number")
      ->capture_default_str();
  cmd->add_option("--seed", args->job.fit.seed, "Of everything random")
      ->check(WholeNumber())
      ->capture_default_str();
  cmd->add_option("--layers", args->layers,
                  "Layers to fit, such as 0-7,12; all that the dump has when left out");
  cmd->add_option(
      "--shard", args->shard,
      "Fit the k-th of n equal parts of these layers, such as 2/4; auto: as the Slurm array job says. "
      "'so4cal merge' joins the tables");
  AddDumpOptions(*cmd, args->job.dump);
  cmd->add_flag("--allow-few-tokens", args->job.dump.allow_few_tokens,
                fmt::format("Accept fewer than {} tokens", DumpOptions::kMinTokens));
  cmd->add_flag("--allow-constant-heads", args->job.dump.allow_constant_heads,
                "Accept constant and all-zero heads: identity, counted");
  cmd->add_option("--memory-limit", args->memory_limit,
                  "Refuse a fit that would need more memory than this: bytes, or with a unit such as 8G")
      ->transform(CLI::AsSizeValue(false));
  cmd->add_flag(
      "--dry-run", args->dry_run,
      "Fit some heads of one layer only, and print tokens, heads, memory and time of the whole fit");
  cmd->add_flag("--strict", args->strict, "Exit with 1, after writing, when any head is not fitted as asked");
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->add_flag("-v,--verbose", args->verbose, "A line per head on stderr");
  cmd->callback([args, &run] { run = [args] { return RunFit(*args); }; });
}

}  // namespace so4cal
