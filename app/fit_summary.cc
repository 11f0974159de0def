// SPDX-License-Identifier: Apache-2.0
#include "app/fit_summary.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "app/fit_error_lines.h"
#include "app/fit_job.h"
#include "app/layer_list.h"
#include "app/progress.h"
#include "calib/split.h"

namespace so4cal {
namespace {

template <class Visit>
void ForEachHead(const RotationTable& table, const Visit& visit) {
  for (const LayerTable& layer : table.layers)
    for (const Side side : kSides)
      for (std::size_t h = 0; h < layer.side(side).heads.size(); ++h) visit(layer.side(side), side, h);
}

std::string TokenLine(const RotationTable& table, const KvDump& dump) {
  std::uint64_t fit = 0, validation = 0, test = 0;
  for (const DumpRecord& record : table.dumps) {
    fit += NumTokens(record.split.fit);
    validation += NumTokens(record.split.validation);
    test += NumTokens(record.split.test);
  }
  const auto& counts = table.layers.front().counts;
  std::string line =
      fmt::format("tokens       {}: {} fit, {} validation, {} test; {} dropped at sequence starts",
                  dump.num_tokens(), fit, validation, test, counts.at(kCountSinkTokens));
  if (const auto left_out = counts.at(kCountUnusedFitTokens); left_out > 0)
    line += fmt::format("; {} left out by --fit-tokens", left_out);
  if (validation == 0) line += "\n             no validation tokens: no guard, every fit is used as it is";
  return line + '\n';
}

// "6 fitted, 1 hadamard"
std::string CountText(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text;
}

// "chosen       k: 6 fitted; v: 5 fitted, 1 hadamard"
template <class Name>
std::string CountLine(const RotationTable& table, std::string_view title, const Name& name) {
  std::map<std::string, std::uint64_t> counts[2];
  ForEachHead(table, [&](const SideTable& side, Side which, std::size_t h) {
    ++counts[static_cast<std::size_t>(which)][std::string(name(side, h))];
  });
  return fmt::format("{:<13}k: {}; v: {}\n", title, CountText(counts[0]), CountText(counts[1]));
}

std::string ChosenLines(const RotationTable& table) {
  using Table = const SideTable&;
  return CountLine(table, "chosen",
                   [](Table s, std::size_t h) { return NameOf(ChosenNames(), s.heads[h].chosen); }) +
         CountLine(table, "rounding",
                   [](Table s, std::size_t h) { return NameOf(Roundings(), s.heads[h].rounding); }) +
         CountLine(table, "objective",
                   [](Table s, std::size_t h) { return NameOf(Objectives(), s.outcomes[h].objective); }) +
         CountLine(table, "loss",
                   [](Table s, std::size_t h) { return NameOf(LossKinds(), s.outcomes[h].loss); });
}

std::string TroubleLines(const RotationTable& table) {
  const FitTroubles t = CountTroubles(table);
  const std::uint64_t fell_back = t.fell_back_to_hadamard + t.fell_back_to_identity;
  std::string text = fmt::format("fell back    {} heads", fell_back);
  if (fell_back > 0)
    text += fmt::format(": {} to plain Hadamard, {} to identity (better on validation tokens)",
                        t.fell_back_to_hadamard, t.fell_back_to_identity);
  text += fmt::format("\nsolver       {} heads stopped before converging", t.not_converged);
  if (t.not_converged > 0) text += " (--max-iterations)";
  text += fmt::format("\nconstant     {} heads{}\n", t.constant_heads,
                      t.constant_heads > 0 ? ", left as they are" : "");
  return text;
}

std::string LayerLine(const RotationTable& table) {
  std::vector<int> fitted;
  for (const LayerTable& layer : table.layers) fitted.push_back(layer.layer);
  if (table.num_model_layers == 0)
    return fmt::format("layers       {}; the dump does not say how many the model has\n",
                       LayerListText(fitted));
  std::vector<int> missing;
  for (int layer = 0; layer < table.num_model_layers; ++layer)
    if (table.FindLayer(layer) == nullptr) missing.push_back(layer);
  std::string line = fmt::format("layers       {} of the model's {}: {}", fitted.size(),
                                 table.num_model_layers, LayerListText(fitted));
  if (!missing.empty()) line += "; not fitted: " + LayerListText(missing);
  return line + '\n';
}

// Of one codec what it is; of several, as a plan gives, the mean over values and the range of bits.
std::string StoredText(const RotationTable& table, Side which) {
  const CodecSpec& first = table.layers.front().side(which).codec;
  double bits = 0, values = 0;
  int low = first.bits, high = first.bits;
  bool same = true;
  for (const LayerTable& layer : table.layers) {
    const SideTable& side = layer.side(which);
    const auto weight = static_cast<double>(side.heads.size()) * side.codec.head_dim;
    bits += weight * side.codec.bits_per_value();
    values += weight;
    low = std::min(low, side.codec.bits);
    high = std::max(high, side.codec.bits);
    same = same && side.codec.bits == first.bits && side.codec.block == first.block;
  }
  const std::string codes = same ? fmt::format("{}-bit", low) : fmt::format("{} to {} bit", low, high);
  const std::string blocks = same ? fmt::format(", blocks of {}", first.block) : ", as the layers have it";
  return fmt::format("{}: {:.4g} bits per value ({} {} codes, {} scales{})", SideName(which), bits / values,
                     codes, NameOf(GridKinds(), first.grid), NameOf(ScaleRules(), first.scale), blocks);
}

std::string StoredLine(const RotationTable& table) {
  return "stored       " + StoredText(table, Side::kKey) + "; " + StoredText(table, Side::kValue) + '\n';
}

}  // namespace

FitTroubles CountTroubles(const RotationTable& table) {
  FitTroubles troubles;
  ForEachHead(table, [&](const SideTable& side, Side, std::size_t h) {
    if (side.family == Family::kNone) return;
    troubles.fell_back_to_identity += side.heads[h].chosen == Chosen::kIdentity;
    troubles.fell_back_to_hadamard += side.heads[h].chosen == Chosen::kHadamard;
    troubles.not_converged += side.outcomes[h].converged == 0;
  });
  const auto counts = table.TotalCounts();
  const auto constant = counts.find(kCountConstantHeads);
  troubles.constant_heads = constant == counts.end() ? 0 : constant->second;
  // Constant heads are set to identity and counted once, as what they are.
  troubles.fell_back_to_identity -= std::min(troubles.fell_back_to_identity, troubles.constant_heads);
  return troubles;
}

std::vector<std::string> HeadLines(const LayerTable& layer) {
  std::vector<std::string> lines;
  for (const Side side : kSides)
    for (std::size_t h = 0; h < layer.side(side).heads.size(); ++h) {
      const HeadOutcome& outcome = layer.side(side).outcomes[h];
      const HeadErrors& errors = outcome.errors;
      lines.push_back(fmt::format(
          "layer {} {} head {}: {}, {} loss, {} iterations{}; NMSE on validation tokens: identity {:.5f}, "
          "hadamard "
          "{:.5f}, fitted {:.5f}; on test tokens: hadamard {:.5f}, chosen {:.5f}",
          layer.layer, SideName(side), h, NameOf(ChosenNames(), layer.side(side).heads[h].chosen),
          NameOf(LossKinds(), outcome.loss), outcome.iterations,
          outcome.converged != 0 ? "" : " (not converged)", errors.validation_identity,
          errors.validation_hadamard, errors.validation_fitted, errors.test_hadamard, errors.test_chosen));
    }
  return lines;
}

std::string FitSummary(const RotationTable& table, const KvDump& dump, double seconds) {
  std::size_t heads = 0;
  ForEachHead(table, [&](const SideTable&, Side, std::size_t) { ++heads; });
  std::string names;
  for (const DumpFile& file : dump.files()) names += (names.empty() ? "" : ", ") + file.name;
  return fmt::format("fitted       {} heads (keys and values) of {} layers from {} in {}\n", heads,
                     table.layers.size(), names, DurationText(seconds)) +
         TokenLine(table, dump) + LayerLine(table) + StoredLine(table) + ChosenLines(table) +
         TroubleLines(table) + FitErrorLines(table);
}

}  // namespace so4cal
