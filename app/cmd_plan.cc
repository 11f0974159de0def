// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/dump_options.h"
#include "app/interrupt.h"
#include "app/layer_list.h"
#include "app/output_path.h"
#include "app/plan_measure.h"
#include "app/progress.h"
#include "app/split_options.h"
#include "formats/atomic_file.h"
#include "formats/plan_file.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

struct PlanArgs {
  std::vector<fs::path> dumps;
  fs::path out;
  DumpOptions dump;
  PlanOptions plan;
  double budget = 3.5;
  std::string layers;
  bool force = false;
};

// Every item with the same bits and the item's block nearest to 32.
std::vector<std::size_t> Uniform(std::span<const PlanItem> items, int bits) {
  std::vector<std::size_t> chosen;
  for (const PlanItem& item : items) {
    std::size_t c = 0;
    while (item.choices[c].codec.bits != bits) ++c;  // blocks ascend from the smallest
    chosen.push_back(c);
  }
  return chosen;
}

PlanFile MakePlan(std::span<const PlanItem> items, std::span<const std::size_t> chosen, double budget,
                  PlanError error) {
  PlanFile plan{budget, AverageBits(items, chosen), std::string(PlanErrorName(error)), {}};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PlanItem::Choice& c = items[i].choices[chosen[i]];
    plan.rows.push_back({items[i].layer, items[i].side, c.codec.bits, c.codec.block, c.codec.bits_per_value(),
                         c.error, c.logit_error});
  }
  return plan;
}

void PrintPlan(const PlanFile& plan, std::span<const PlanItem> items, std::span<const std::size_t> chosen,
               PlanError error) {
  const double total = TotalError(items, chosen);
  fmt::print("{:>5} {:>4} {:>5} {:>6} {:>11} {:>12} {:>6} {:>12}\n", "layer", "side", "bits", "block",
             "bits/value", "error", "share", "logit error");
  for (const PlanFile::Row& row : plan.rows)
    fmt::print("{:>5} {:>4} {:>5} {:>6} {:>11.3f} {:>12.4g} {:>5.1f}% {:>12}\n", row.layer,
               SideName(row.side), row.bits, row.block, row.bits_per_value, row.error,
               total > 0 ? 100 * row.error / total : 0,
               std::isnan(row.logit_error) ? std::string("-") : fmt::format("{:.4g}", row.logit_error));
  fmt::print("error        {}\n", PlanErrorText(error));
  fmt::print("plan         {:.3f} stored bits per value (budget {:g}), error {:.4g} in all\n",
             plan.bits_per_value, plan.budget, total);
  for (const int bits : {2, 3, 4}) {
    const std::vector<std::size_t> uniform = Uniform(items, bits);
    fmt::print("all {} bits   {:.3f} stored bits per value, error {:.4g}: {:.2f} times the plan's\n", bits,
               AverageBits(items, uniform), TotalError(items, uniform), TotalError(items, uniform) / total);
  }
}

int RunPlan(const PlanArgs& args) {
  args.dump.Check();
  args.plan.split.Check();
  if (!(args.budget >= 2 && args.budget <= 16))
    throw UsageError(fmt::format("--budget is {:g} bits per value, expected 2 to 16", args.budget));
  if (!args.out.empty()) CheckOutputPath(args.out, args.dumps, args.force);
  const KvDump dump(args.dumps, args.dump);
  std::vector<int> layers;
  if (!args.layers.empty()) layers = ParseLayerList(args.layers);
  if (layers.empty())
    for (const LayerInfo& layer : dump.layers()) layers.push_back(layer.layer);
  ChooseBits(UnmeasuredPlanItems(dump, layers),
             args.budget);  // a budget that nothing fits is refused before the work
  const PlanError error = CommonPlanError(dump, layers);
  CatchInterrupts();
  std::vector<PlanItem> items;
  {
    Progress progress("plan");
    std::size_t done = 0;
    items = MeasurePlanItems(dump, layers, args.plan, error, [&] {
      progress.Update(++done, layers.size());
      return !Interrupted();
    });
  }
  if (Interrupted()) {
    fmt::print(stderr, "so4cal: interrupted; nothing was written\n");
    return kExitInterrupted;
  }
  const std::vector<std::size_t> chosen = ChooseBits(items, args.budget);
  const PlanFile plan = MakePlan(items, chosen, args.budget, error);
  if (!args.out.empty()) WriteBytesAtomically(args.out, PlanJson(plan));
  PrintPlan(plan, items, chosen, error);
  if (!args.out.empty()) fmt::print("wrote        {} (for fit --plan)\n", args.out.string());
  return kExitDone;
}

}  // namespace

void AddPlanCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<PlanArgs>();
  args->dump.allow_constant_heads = true;
  CLI::App* cmd =
      app.add_subcommand("plan", "Bits and block size per layer and side for a budget of stored bits");
  cmd->add_option("dumps", args->dumps, "Dump files (HDF5) of one model")->required();
  cmd->add_option("--budget", args->budget,
                  "Stored bits per value at most, scales included, over all layers and sides")
      ->capture_default_str();
  cmd->add_option("-o,--out", args->out, "JSON for fit --plan");
  cmd->add_option("--layers", args->layers,
                  "Layers to plan for, such as 0-7,12; all that the dump has when left out");
  AddSplitOptions(*cmd, args->plan.split);
  AddDumpOptions(*cmd, args->dump);
  cmd->add_flag("--allow-few-tokens", args->dump.allow_few_tokens,
                fmt::format("Accept fewer than {} tokens", DumpOptions::kMinTokens));
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunPlan(*args); }; });
}

}  // namespace so4cal
