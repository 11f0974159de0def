// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/engine_rotation_option.h"
#include "app/fold_model.h"
#include "app/fold_output.h"
#include "app/interrupt.h"
#include "app/layer_list.h"
#include "app/progress.h"
#include "formats/table_io.h"
#include "lib/error.h"

namespace so4cal {
namespace {

struct FoldArgs {
  FoldPaths paths;
  std::string engine_rotation = "none";
};

std::string TypeName(ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return "f64";
    case ElementType::kF32:
      return "f32";
    case ElementType::kF16:
      return "f16";
    default:
      return "bf16";
  }
}

std::string TypesOf(std::span<const LayerFold> folds) {
  std::set<std::string> types;
  for (const LayerFold& fold : folds)
    for (const WeightTensor* weight : {&fold.weights.v, &fold.weights.o})
      types.insert(TypeName(weight->type));
  std::string all;
  for (const std::string& type : types) all += (all.empty() ? "" : ", ") + type;
  return all;
}

// "3 KV heads of 64 for 9 query heads", each kind of layer once.
std::string ShapesOf(std::span<const LayerFold> folds) {
  std::set<std::string> shapes;
  for (const LayerFold& fold : folds) {
    const SideTable& side = fold.table->side(Side::kValue);
    shapes.insert(fmt::format("{} KV heads of {} for {} query heads", side.heads.size(), side.codec.head_dim,
                              fold.query_heads));
  }
  std::string all;
  for (const std::string& shape : shapes) all += (all.empty() ? "" : "; ") + shape;
  return all;
}

std::string ChosenCounts(std::span<const LayerFold> folds) {
  std::map<std::string, int> counts;
  for (const LayerFold& fold : folds)
    for (const HeadTable& head : fold.table->side(Side::kValue).heads)
      ++counts[std::string(NameOf(ChosenNames(), head.chosen))];
  std::string all;
  for (const auto& [name, count] : counts)
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", count, name);
  return all;
}

std::string Untouched(const ModelFiles& model, const RotationTable& table) {
  std::vector<int> layers;
  for (const int layer : AttentionLayers(model))
    if (table.FindLayer(layer) == nullptr) layers.push_back(layer);
  if (layers.empty()) return "no layer: the table has all that the model has";
  return fmt::format("{} layers that the table lacks: {}", layers.size(), LayerListText(layers));
}

void PrintFold(const FoldArgs& args, const ModelFiles& model, const RotationTable& table,
               std::span<const LayerFold> folds, const RoundingChange& rounding) {
  fmt::print("folded     values of {} layers, {}\n", folds.size(), ShapesOf(folds));
  fmt::print("heads      {}\n", ChosenCounts(folds));
  fmt::print("untouched  {}\n", Untouched(model, table));
  fmt::print("weights    {}\n", TypesOf(folds));
  if (rounding.weight_squares > 0)
    fmt::print("rounding   16-bit weights moved by at most {:.3g}, {:.2g} % of the weights' rms in the rms\n",
               rounding.max_abs, 100 * std::sqrt(rounding.squares / rounding.weight_squares));
  if (args.engine_rotation != "none")
    fmt::print("engine     made for an engine that rotates values itself: {}; wrong without that\n",
               args.engine_rotation);
  if (model.whole_folder)
    for (const std::string& name : FilesOfModelFolder(model).left_out) fmt::print("left out   {}\n", name);
  fmt::print("wrote      {}\n", args.paths.out.string());
  fmt::print("next       the cache now holds U {}: quantize values with the plain rule of your engine\n",
             folds.empty() || !folds[0].weights.v_bias ? "v" : "(v - offset)");
  fmt::print(
      "keys       are as before: RoPE stands between k_proj and the cache, so that no weight can take their\n"
      "           rotation; so4cal export writes it for engines that apply it\n");
}

int RunFold(const FoldArgs& args) {
  const EngineRotation rotation = ParseEngineRotation(args.engine_rotation);
  const ModelFiles model = OpenModel(args.paths.model);
  CheckFoldOutput(args.paths, model);
  const RotationTable table = ReadTable(args.paths.table);
  const std::vector<LayerFold> folds = PlanFold(model, table, rotation);
  CatchInterrupts();
  RoundingChange rounding;
  const auto fold_into = [&](const PathOf& copy) {
    Progress progress("fold");
    for (std::size_t i = 0; i < folds.size() && !Interrupted(); ++i) {
      rounding.Add(FoldLayer(
          folds[i], rotation, [&](const std::string& file) { return model.folder / file; }, copy));
      progress.Update(i + 1, folds.size());
    }
  };
  if (!WriteFold(args.paths, model, table, args.engine_rotation, fold_into)) {
    fmt::print(stderr, "so4cal: interrupted; nothing was written\n");
    return kExitInterrupted;
  }
  PrintFold(args, model, table, folds, rounding);
  return kExitDone;
}

}  // namespace

void AddFoldCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<FoldArgs>();
  CLI::App* cmd = app.add_subcommand("fold", "Put a table's value rotations into a model's weights");
  cmd->add_option("table", args->paths.table, "Table from 'so4cal fit'")->required();
  cmd->add_option("--model", args->paths.model,
                  "Model folder with safetensors, or one .safetensors or .gguf file, not quantized")
      ->required();
  cmd->add_option("-o,--out", args->paths.out, "Model to write: a folder where the model is one, else a file")
      ->required();
  cmd->add_option(
         "--engine-rotation", args->engine_rotation,
         "Rotation that the engine applies to values by itself: none, hadamard, hadamard:N (blocks of N) or\n"
         "signs:FILE (d signs: H D(s1); 2 d signs: D(s2) H D(s1))")
      ->capture_default_str();
  cmd->add_flag("--force", args->paths.force,
                "Replace an existing file, or a folder that an earlier fold wrote");
  cmd->callback([args, &run] { run = [args] { return RunFold(*args); }; });
}

}  // namespace so4cal
