// SPDX-License-Identifier: Apache-2.0
#include "app/plan_measure.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "app/fit_job.h"
#include "app/parallel.h"
#include "calib/attention_metrics.h"
#include "calib/metrics.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr float kKeyDamping = 0.1f;  // of feedback rounding
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool AllowsOutput(const LayerInfo& layer) { return layer.q && !layer.softmax_sink && !layer.logit_softcap; }

std::vector<BitChoice> ChoicesFor(int head_dim) {
  std::vector<int> blocks;
  for (int block = 32; block <= 128; block *= 2)
    if (head_dim % block == 0) blocks.push_back(block);
  if (blocks.empty()) blocks.push_back(head_dim & -head_dim);
  std::vector<BitChoice> choices;
  for (const int bits : {2, 3, 4})
    for (const int block : blocks) choices.push_back({bits, block});
  return choices;
}

// Tokens by use, over all files.
struct PlanTokens {
  std::vector<TokenRange> fit, validation, kept;  // kept: all but sinks
};

PlanTokens TokensToPlanOn(const KvDump& dump, const SplitOptions& options) {
  const std::vector<FileTokens> files = TokensOfFiles(dump);
  std::vector<std::vector<TokenRange>> fit, validation, kept;
  for (TokenSplit& split : SplitTokens(files, options)) {
    fit.push_back(std::move(split.fit));
    validation.push_back(std::move(split.validation));
  }
  SplitOptions all = options;
  all.fit_percent = 100;
  all.validation_percent = all.test_percent = 0;
  all.fit_tokens = 0;
  for (TokenSplit& split : SplitTokens(files, all)) kept.push_back(std::move(split.fit));
  const std::vector<std::uint64_t> counts = TokenCounts(dump);
  return {GlobalRanges(fit, counts), GlobalRanges(validation, counts), GlobalRanges(kept, counts)};
}

struct LayerOfPlan {
  const LayerInfo& info;
  Activations sides[2];
  std::optional<Queries> queries;
  std::optional<KvDump::Matrix> w_o;
  std::vector<std::uint64_t> sequence_starts;
};

std::vector<float> FitMean(const HeadView& head, const PlanTokens& tokens) {
  const std::vector<float> rows = GatherRows(head, tokens.fit);
  return ChannelMean(
      {rows.data(), NumTokens(tokens.fit), static_cast<std::size_t>(head.channels), head.channels});
}

// What every choice stores a head with: plain Hadamard and the mean, keys by feedback where queries are
// known.
HeadTable PlanTable(const LayerOfPlan& layer, Side side, int head, const std::vector<float>& mean,
                    const PlanTokens& tokens) {
  HeadTable table;
  table.chosen = Chosen::kHadamard;
  table.transform = {.head_dim = static_cast<int>(mean.size()), .hadamard = true, .offset = mean};
  if (side == Side::kValue || !layer.queries) return table;
  const Metric metric =
      QueryMoment(layer.queries->rows, layer.queries->positions, head, layer.sides[0].num_heads, tokens.fit);
  if (metric.empty()) return table;
  table.rounding = Rounding::kFeedback;
  table.damping = kKeyDamping;
  table.metric.assign(metric.begin(), metric.end());
  return table;
}

// One head stored with every choice: [choice][token][channel].
std::vector<std::vector<float>> StoreChoices(const HeadView& head, const HeadTable& table,
                                             const PlanTokens& tokens, const PlanOptions& options,
                                             std::span<const BitChoice> choices) {
  std::vector<std::vector<float>> stored;
  for (const BitChoice& choice : choices) {
    const CodecSpec spec{.head_dim = head.channels,
                         .bits = choice.bits,
                         .block = choice.block,
                         .grid = options.grid,
                         .scale = options.scale};
    stored.push_back(StoreRanges(spec, table, head, tokens.kept));
  }
  return stored;
}

// sum of |x_hat - x|^2 over these tokens; one x_hat for all tokens when `stored` has one row.
double SquaredError(const HeadView& head, std::span<const float> stored, std::span<const TokenRange> tokens) {
  const auto d = static_cast<std::size_t>(head.channels);
  double sum = 0;
  for (const TokenRange& range : tokens)
    for (std::uint64_t t = range.begin; t < range.end; ++t)
      for (std::size_t c = 0; c < d; ++c) {
        const float x_hat = stored[stored.size() == d ? c : t * d + c];
        const double e = static_cast<double>(x_hat) - static_cast<double>(head.row(t)[c]);
        sum += e * e;
      }
  return sum;
}

AttentionHead AttentionOf(const LayerOfPlan& layer, int head, const PlanTokens& tokens,
                          const PlanOptions& options, std::span<const double> gram) {
  AttentionHead attention{.keys = layer.sides[0].head(head),
                          .values = layer.sides[1].head(head),
                          .queries = {},
                          .positions = layer.queries->positions,
                          .sequence_starts = layer.sequence_starts,
                          .softmax_scale = layer.info.softmax_scale,
                          .sliding_window = layer.info.sliding_window,
                          .skip_tokens = options.split.skip_tokens,
                          .tokens = tokens.validation,
                          .output_gram = gram};
  for (int j = 0; j < layer.queries->rows.num_heads; ++j)
    if (KvHeadOf(j, layer.queries->rows.num_heads, layer.sides[0].num_heads) == head)
      attention.queries.push_back(layer.queries->rows.head(j));
  return attention;
}

// The columns of W_O that the head's group writes through.
std::vector<double> GroupGram(const LayerOfPlan& layer, int head) {
  const auto group = static_cast<std::size_t>(layer.queries->rows.num_heads / layer.sides[0].num_heads);
  const std::size_t columns = group * static_cast<std::size_t>(layer.sides[1].channels);
  return OutputGram(layer.w_o->values, layer.w_o->cols, static_cast<std::size_t>(head) * columns, columns);
}

// One head and side: what its choices cost, not yet divided by the energy.
struct Measured {
  std::vector<PlanItem::Choice> choices;
  double energy = 0;
};

void AddAttentionErrors(const AttentionHead& attention, std::span<const StoredHead> variants, PlanError error,
                        std::array<Measured, 2>& out) {
  const auto measured = MeasureAttention(attention, variants);
  if (measured[0][0].num_rows == 0)
    throw Error(
        "none of the dump's queries belongs to a validation token, where a plan is measured: dump more of "
        "them "
        "(dump_kv.py --queries), or change --split");
  const double scale = attention.softmax_scale;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const AttentionErrors& e = measured[i][0];
    const AttentionErrors::Output& output = error == PlanError::kOutputWo ? e.output : e.head;
    const bool key = i < out[0].choices.size();
    PlanItem::Choice& choice = key ? out[0].choices[i] : out[1].choices[i - out[0].choices.size()];
    choice.error = output.both;
    if (key) choice.logit_error = scale * scale * e.logit_error / static_cast<double>(e.num_rows);
    out[0].energy = out[1].energy = output.energy;
  }
}

std::array<Measured, 2> MeasureHead(const LayerOfPlan& layer, int head, const PlanTokens& tokens,
                                    const PlanOptions& options, PlanError error) {
  std::array<Measured, 2> out;
  std::array<std::vector<std::vector<float>>, 2> stored;
  std::vector<StoredHead> variants;
  for (const Side side : kSides) {
    const auto s = static_cast<std::size_t>(side);
    const HeadView view = layer.sides[s].head(head);
    const std::vector<BitChoice> choices = ChoicesFor(view.channels);
    const std::vector<float> mean = FitMean(view, tokens);
    stored[s] = StoreChoices(view, PlanTable(layer, side, head, mean, tokens), tokens, options, choices);
    out[s].energy = SquaredError(view, mean, tokens.validation);
    for (std::size_t c = 0; c < choices.size(); ++c) {
      out[s].choices.push_back({choices[c], SquaredError(view, stored[s][c], tokens.validation), kUnknown});
      variants.push_back(side == Side::kKey ? StoredHead{stored[s][c], {}} : StoredHead{{}, stored[s][c]});
    }
  }
  if (error == PlanError::kReconstruction) return out;
  std::vector<double> gram;
  if (error == PlanError::kOutputWo) gram = GroupGram(layer, head);
  AddAttentionErrors(AttentionOf(layer, head, tokens, options, gram), variants, error, out);
  return out;
}

// Sums over heads, relative to the sum of their energies.
PlanItem Pool(int layer, Side side, std::uint64_t values_per_token,
              std::span<const std::array<Measured, 2>> heads) {
  const auto s = static_cast<std::size_t>(side);
  PlanItem item{layer, side, values_per_token, heads[0][s].choices};
  double energy = heads[0][s].energy;
  for (const auto& head : heads.subspan(1)) {
    energy += head[s].energy;
    for (std::size_t c = 0; c < item.choices.size(); ++c) {
      item.choices[c].error += head[s].choices[c].error;
      item.choices[c].logit_error += head[s].choices[c].logit_error;
    }
  }
  for (PlanItem::Choice& choice : item.choices) {
    if (energy > 0) choice.error /= energy;
    choice.logit_error /= static_cast<double>(heads.size());
  }
  return item;
}

}  // namespace

std::string_view PlanErrorName(PlanError error) {
  constexpr std::string_view kNames[] = {"output_wo", "output_head", "reconstruction"};
  return kNames[static_cast<std::size_t>(error)];
}

std::string_view PlanErrorText(PlanError error) {
  constexpr std::string_view kTexts[] = {
      "squared error of the attention output after W_O over its energy",
      "squared error of the attention output before W_O over its energy (not every layer has w_o)",
      "squared error of keys and values over their energy (not every layer has q and a plain softmax)"};
  return kTexts[static_cast<std::size_t>(error)];
}

PlanError CommonPlanError(const KvDump& dump, std::span<const int> layers) {
  const auto all = [&](auto has) {
    return std::ranges::all_of(layers, [&](int layer) { return has(dump.layer(layer)); });
  };
  if (!all(AllowsOutput)) return PlanError::kReconstruction;
  return all([](const LayerInfo& layer) { return layer.has_w_o; }) ? PlanError::kOutputWo
                                                                   : PlanError::kOutputHead;
}

std::vector<PlanItem> UnmeasuredPlanItems(const KvDump& dump, std::span<const int> layers) {
  std::vector<PlanItem> items;
  for (const int id : layers)
    for (const Side side : kSides) {
      const DatasetInfo& data = side == Side::kKey ? dump.layer(id).k : dump.layer(id).v;
      items.push_back({id,
                       side,
                       static_cast<std::uint64_t>(data.num_heads) * static_cast<std::uint64_t>(data.channels),
                       {}});
      for (const BitChoice& choice : ChoicesFor(data.channels))
        items.back().choices.push_back({choice, 0, kUnknown});
    }
  return items;
}

std::vector<PlanItem> MeasurePlanItems(const KvDump& dump, std::span<const int> layers,
                                       const PlanOptions& options, PlanError error,
                                       const std::function<bool()>& layer_done) {
  const PlanTokens tokens = TokensToPlanOn(dump, options.split);
  if (tokens.validation.empty())
    throw Error(
        "--split leaves no validation tokens: a plan is measured on them, expected a second number above 0");
  std::vector<PlanItem> items;
  for (const int id : layers) {
    LayerOfPlan layer{dump.layer(id),
                      {dump.Read(id, Side::kKey), dump.Read(id, Side::kValue)},
                      {},
                      {},
                      GlobalSequenceStarts(dump)};
    if (error != PlanError::kReconstruction) layer.queries = dump.ReadQueries(id);
    if (error == PlanError::kOutputWo) layer.w_o = dump.ReadOutputProjection(id);
    const auto num_heads = static_cast<std::size_t>(layer.sides[0].num_heads);
    std::vector<std::array<Measured, 2>> heads(num_heads);
    ParallelFor(num_heads, [&](std::size_t h) {
      heads[h] = MeasureHead(layer, static_cast<int>(h), tokens, options, error);
    });
    for (const Side side : kSides) {
      const auto channels = static_cast<std::uint64_t>(layer.sides[static_cast<std::size_t>(side)].channels);
      items.push_back(Pool(id, side, num_heads * channels, heads));
    }
    if (!layer_done()) break;
  }
  return items;
}

}  // namespace so4cal
