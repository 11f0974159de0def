// SPDX-License-Identifier: Apache-2.0
#include "app/fit_job.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "app/side_options.h"
#include "app/simd.h"
#include "lib/version.h"

namespace so4cal {
namespace {

// The split of all files as one list of token indices over all of them.
TokenSplit GlobalSplit(std::span<const TokenSplit> splits, std::span<const std::uint64_t> tokens) {
  std::vector<std::vector<TokenRange>> fit, validation, test;
  for (const TokenSplit& split : splits) {
    fit.push_back(split.fit);
    validation.push_back(split.validation);
    test.push_back(split.test);
  }
  return {GlobalRanges(fit, tokens), GlobalRanges(validation, tokens), GlobalRanges(test, tokens)};
}

// A word, or a number where the word of the command line is one.
nlohmann::ordered_json OptionValue(const std::string& word) {
  auto number = nlohmann::ordered_json::parse(word, nullptr, false);
  return number.is_number() ? number : nlohmann::ordered_json(word);
}

// Resolved options that change the result; the names are those of the command line.
std::string OptionsJson(const FitJob& job) {
  nlohmann::ordered_json json;
  for (const Side side : kSides) {
    const SideOptions& options = job.fit.sides[static_cast<std::size_t>(side)];
    for (const SideOption& option : SideOptionTable())
      json[SideName(side)][std::string(option.name.substr(2))] = OptionValue(option.get(options));
    json[SideName(side)]["hadamard"] = options.ResolvedHadamard() ? "on" : "off";
  }
  for (const auto& [layer, choices] : job.fit.plan)
    for (const Side side : kSides)
      if (const auto& choice = choices[static_cast<std::size_t>(side)])
        json["plan"][std::to_string(layer)][SideName(side)] = {choice->bits, choice->block};
  const SplitOptions& split = job.fit.split;
  json["split"] = {split.fit_percent, split.validation_percent, split.test_percent};
  json["skip_tokens"] = split.skip_tokens;
  json["fit_tokens"] = split.fit_tokens;
  json["max_iterations"] = job.fit.max_iterations;
  json["seed"] = job.fit.seed;
  json["axes"] = job.dump.axes;
  json["key_name"] = job.dump.key_name;
  json["value_name"] = job.dump.value_name;
  json["allow_constant_heads"] = job.dump.allow_constant_heads;
  json["allow_few_tokens"] = job.dump.allow_few_tokens;
  return json.dump();
}

// Sinks, and fit tokens beyond --fit-tokens.
std::map<std::string, std::uint64_t> TokenCountsOfLayer(const KvDump& dump, const FitJob& job,
                                                        const TokenSplit& used) {
  const std::uint64_t sinks = NumSinkTokens(dump, job.fit.split.skip_tokens);
  const std::uint64_t kept = NumTokens(used.fit) + NumTokens(used.validation) + NumTokens(used.test);
  return {{kCountSinkTokens, sinks}, {kCountUnusedFitTokens, dump.num_tokens() - sinks - kept}};
}

bool NeedsAttention(const SideOptions& side) {
  return side.objective != ObjectiveChoice::kMse || side.rounding != RoundingChoice::kNearest;
}

// What the fit of one side looks at beside the side itself: queries for keys, w_o for values.
std::shared_ptr<const LayerAttention> ReadLayerAttention(const KvDump& dump, int layer, Side side,
                                                         std::uint64_t skip_tokens) {
  const LayerInfo& info = dump.layer(layer);
  auto attention = std::make_shared<LayerAttention>();
  attention->sequence_starts = GlobalSequenceStarts(dump);
  attention->skip_tokens = skip_tokens;
  attention->softmax_scale = info.softmax_scale;
  attention->sliding_window = info.sliding_window;
  attention->plain_softmax = !info.softmax_sink && !info.logit_softcap;
  if (side == Side::kKey) {
    if (std::optional<Queries> queries = dump.ReadQueries(layer)) {
      attention->queries = std::move(queries->rows);
      attention->positions = std::move(queries->positions);
    } else if (const auto moments = dump.ReadQueryMoment(layer)) {
      const std::size_t size = moments->size() / static_cast<std::size_t>(info.k.num_heads);
      for (auto at = moments->begin(); at != moments->end(); at += static_cast<std::ptrdiff_t>(size))
        attention->query_moments.emplace_back(at, at + static_cast<std::ptrdiff_t>(size));
    }
  } else if (std::optional<KvDump::Matrix> w_o = dump.ReadOutputProjection(layer)) {
    attention->num_query_heads = static_cast<int>(w_o->cols) / info.v.channels;
    attention->w_o_rows = w_o->rows;
    attention->w_o = std::move(w_o->values);
  }
  return attention;
}

}  // namespace

std::vector<std::uint64_t> GlobalSequenceStarts(const KvDump& dump) {
  std::vector<std::uint64_t> starts;
  std::uint64_t first = 0;
  for (const DumpFile& file : dump.files()) {
    for (const std::uint64_t start : file.sequence_starts) starts.push_back(first + start);
    first += file.num_tokens;
  }
  return starts;
}

std::vector<FileTokens> TokensOfFiles(const KvDump& dump) {
  std::vector<FileTokens> files;
  for (const DumpFile& file : dump.files()) files.push_back({file.num_tokens, file.sequence_starts});
  return files;
}

std::vector<std::uint64_t> TokenCounts(const KvDump& dump) {
  std::vector<std::uint64_t> counts;
  for (const DumpFile& file : dump.files()) counts.push_back(file.num_tokens);
  return counts;
}

std::uint64_t NumSinkTokens(const KvDump& dump, std::uint64_t skip_tokens) {
  std::uint64_t sinks = 0;
  for (const DumpFile& file : dump.files())
    for (std::size_t i = 0; i < file.sequence_starts.size(); ++i) {
      const bool last = i + 1 == file.sequence_starts.size();
      const std::uint64_t end = last ? file.num_tokens : file.sequence_starts[i + 1];
      sinks += std::min(skip_tokens, end - file.sequence_starts[i]);
    }
  return sinks;
}

RotationTable TableWithoutLayers(const KvDump& dump, const FitJob& job) {
  const std::vector<TokenSplit> splits = SplitTokens(TokensOfFiles(dump), job.fit.split);
  RotationTable table;
  table.tool_version = kVersion;
  table.model = dump.model();
  table.num_model_layers = dump.num_model_layers();
  for (const LayerInfo& layer : dump.layers())
    table.dump_layers.push_back(static_cast<std::uint64_t>(layer.layer));
  table.seed = job.fit.seed;
  table.options_json = OptionsJson(job);
  table.simd_target = BestSimdTarget();
  for (std::size_t f = 0; f < dump.files().size(); ++f) {
    const DumpFile& file = dump.files()[f];
    table.dumps.push_back({file.name, file.size_bytes, file.num_tokens, splits[f]});
  }
  return table;
}

TokenSplit SplitOfJob(const KvDump& dump, const FitJob& job) {
  return GlobalSplit(SplitTokens(TokensOfFiles(dump), job.fit.split), TokenCounts(dump));
}

SideInput ReadSide(const KvDump& dump, const FitJob& job, int layer, Side side) {
  SideInput input{dump.Read(layer, side), dump.ConstantHeads(layer, side), nullptr};
  if (NeedsAttention(job.fit.sides[static_cast<std::size_t>(side)]))
    input.attention = ReadLayerAttention(dump, layer, side, job.fit.split.skip_tokens);
  return input;
}

std::optional<RotationTable> RunFitJob(const KvDump& dump, const FitJob& job,
                                       std::vector<LayerTable> finished, const FitJobCallbacks& callbacks) {
  const TokenSplit split = SplitOfJob(dump, job);
  RotationTable table = TableWithoutLayers(dump, job);
  table.layers = std::move(finished);
  std::vector<int> layers;
  std::ranges::copy_if(job.layers, std::back_inserter(layers),
                       [&](int layer) { return table.FindLayer(layer) == nullptr; });
  std::size_t heads_total = 0;
  for (const int layer : layers)
    heads_total += static_cast<std::size_t>(dump.layer(layer).k.num_heads + dump.layer(layer).v.num_heads);

  // `read` and `write` run at the same time, and HDF5 has one user at a time: each holds the mutex. What
  // `read` learns about a layer waits here for `write`.
  struct ReadNotes {
    std::vector<std::map<std::string, std::string>> hashes;
    std::uint64_t constant_heads = 0;
  };
  std::mutex mutex;
  std::map<int, ReadNotes> notes;

  FitCallbacks fit;
  fit.read = [&](int layer, Side side) {
    const std::lock_guard lock(mutex);
    SideInput input = ReadSide(dump, job, layer, side);
    notes[layer].hashes = dump.HashesOfRead(layer);  // those of the values are the last, and hold all
    notes[layer].constant_heads += input.constant_heads.size();
    return input;
  };
  fit.write = [&](LayerTable&& layer) {
    const std::lock_guard lock(mutex);
    ReadNotes& note = notes.at(layer.layer);
    layer.hashes = std::move(note.hashes);
    layer.counts[kCountConstantHeads] = note.constant_heads;
    for (const auto& [reason, count] : TokenCountsOfLayer(dump, job, split)) layer.counts[reason] = count;
    if (callbacks.layer_done) callbacks.layer_done(layer);
    table.layers.push_back(std::move(layer));
  };
  fit.progress = callbacks.progress;
  if (!FitModel(layers, heads_total, split, job.fit, fit)) return std::nullopt;
  std::ranges::sort(table.layers, {}, &LayerTable::layer);
  table.Check();
  return table;
}

}  // namespace so4cal
