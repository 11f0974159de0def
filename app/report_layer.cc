// SPDX-License-Identifier: Apache-2.0
#include "app/report_layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/fit_job.h"
#include "app/parallel.h"
#include "calib/gaussian_limit.h"
#include "calib/moments.h"
#include "calib/split.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

constexpr auto kCalibratedIndex = static_cast<std::size_t>(Baseline::kCalibrated);
constexpr auto kHadamardOffsetIndex = static_cast<std::size_t>(Baseline::kHadamardOffset);
constexpr std::size_t kNumRuns = 32;  // of test tokens or query rows, for the bootstrap

using RunErrors = std::vector<std::vector<AttentionErrors>>;  // [baseline][run]

// One layer of the dump, and which parts of attention it allows.
struct LayerData {
  const LayerTable& table;
  const LayerInfo& info;
  const ReportTokens& tokens;
  std::uint64_t skip_tokens;
  std::vector<std::uint64_t> sequence_starts;
  std::vector<TokenRange> kept;  // all tokens but the sinks
  Activations sides[2];
  std::optional<Queries> queries;
  std::vector<Metric> query_moments;  // per KV head; only without queries
  std::optional<KvDump::Matrix> w_o;
  double limits[2] = {};  // GaussianLimit of the sides
};

bool PlainSoftmax(const LayerInfo& info) { return !info.softmax_sink && !info.logit_softcap; }

std::vector<Metric> QueryMoments(const KvDump& dump, const LayerInfo& info) {
  std::vector<Metric> moments;
  const auto all = dump.ReadQueryMoment(info.layer);
  if (!all) return moments;
  const auto size = static_cast<std::ptrdiff_t>(info.k.channels) * info.k.channels;
  for (auto at = all->begin(); at != all->end(); at += size) moments.emplace_back(at, at + size);
  return moments;
}

std::vector<TokenRange> KeptTokens(const KvDump& dump, std::span<const std::uint64_t> starts,
                                   std::uint64_t skip) {
  std::vector<TokenRange> kept;
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const std::uint64_t end = s + 1 < starts.size() ? starts[s + 1] : dump.num_tokens();
    if (skip < end - starts[s]) kept.push_back({starts[s] + skip, end});
  }
  return kept;
}

bool AnyQueryIn(std::span<const std::uint64_t> positions, std::span<const TokenRange> ranges) {
  return std::any_of(positions.begin(), positions.end(), [&](std::uint64_t t) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const TokenRange& range) { return t >= range.begin && t < range.end; });
  });
}

LayerData ReadLayer(const RotationTable& table, const LayerTable& layer, const KvDump& dump,
                    const ReportTokens& tokens, MissingByReason& missing) {
  const int id = layer.layer;
  LayerData data{layer, dump.layer(id), tokens, SkipTokens(table), GlobalSequenceStarts(dump), {}, {}, {}, {},
                 {}};
  data.kept = KeptTokens(dump, data.sequence_starts, data.skip_tokens);
  for (const Side side : kSides) {
    data.sides[static_cast<std::size_t>(side)] = dump.Read(id, side);
    data.limits[static_cast<std::size_t>(side)] = GaussianLimit(layer.side(side).codec);
  }
  data.queries = dump.ReadQueries(id);
  if (data.queries && !AnyQueryIn(data.queries->positions, tokens.test)) {
    missing["no query of the dump belongs to a test token: no logit, attention and output errors"].insert(id);
    data.queries.reset();
  } else if (!data.queries) {
    data.query_moments = QueryMoments(dump, data.info);
    missing
        [data.query_moments.empty()
             ? "the dump has no q: no logit, attention and output errors"
             : "the dump has q_moment but no q: the logit error is an estimate over all its queries, those "
               "of fit tokens included; no attention and output errors"]
            .insert(id);
  }
  if (!data.queries) return data;
  if (!PlainSoftmax(data.info))
    missing["the model has learned softmax sinks or caps its logits: no attention and output errors"].insert(
        id);
  data.w_o = dump.ReadOutputProjection(id);
  if (!data.w_o) missing["the dump has no w_o: no output error after W_O"].insert(id);
  return data;
}

// All tokens of one head as stored, the sinks zero (they are not stored): [token][channel].
std::vector<float> StoredTokens(const LayerData& layer, Side which, int head, Baseline baseline) {
  const SideTable& side = layer.table.side(which);
  return StoreRanges(side.codec, BaselineTable(side, head, baseline),
                     layer.sides[static_cast<std::size_t>(which)].head(head), layer.kept);
}

// Learned sinks and soft caps change what attention does with the logits: only their error is left.
void KeepLogitsOnly(RunErrors& runs) {
  for (auto& baseline : runs)
    for (AttentionErrors& run : baseline) {
      AttentionErrors logits;
      logits.logit_error = run.logit_error;
      logits.logit_energy = run.logit_energy;
      run = logits;
    }
}

RunErrors MeasurePair(const LayerData& layer, int head) {
  const Activations& queries = layer.queries->rows;
  const int group = queries.num_heads / layer.sides[0].num_heads;
  const int value_channels = layer.sides[1].channels;
  AttentionHead attention{.keys = layer.sides[0].head(head),
                          .values = layer.sides[1].head(head),
                          .queries = {},
                          .positions = layer.queries->positions,
                          .sequence_starts = layer.sequence_starts,
                          .softmax_scale = layer.info.softmax_scale,
                          .sliding_window = layer.info.sliding_window,
                          .skip_tokens = layer.skip_tokens,
                          .tokens = layer.tokens.test,
                          .output_gram = {}};
  for (int j = head * group; j < (head + 1) * group; ++j) attention.queries.push_back(queries.head(j));
  std::vector<double> gram;
  if (layer.w_o)
    gram = OutputGram(layer.w_o->values, layer.w_o->cols,
                      static_cast<std::size_t>(head * group * value_channels),
                      static_cast<std::size_t>(group * value_channels));
  attention.output_gram = gram;
  std::vector<std::vector<float>> rows;
  for (const Named<Baseline>& baseline : Baselines())
    for (const Side side : kSides) rows.push_back(StoredTokens(layer, side, head, baseline.value));
  std::vector<StoredHead> stored;
  for (std::size_t b = 0; b < kNumBaselines; ++b) stored.push_back({rows[2 * b], rows[2 * b + 1]});
  RunErrors runs = MeasureAttention(attention, stored, kNumRuns);
  if (!PlainSoftmax(layer.info)) KeepLogitsOnly(runs);
  return runs;
}

// Test tokens of one head.
struct TestRows {
  std::vector<float> values;
  HeadView view;
  std::vector<float> mean;  // of the fit tokens; may be empty
};

std::vector<float> FitMean(const HeadView& head, const HeadTable& table, std::span<const TokenRange> fit) {
  if (fit.empty()) return table.transform.offset;  // a fit's offset is the mean of its fit tokens
  const std::vector<float> rows = GatherRows(head, fit);
  return ChannelMean({rows.data(), NumTokens(fit), static_cast<std::size_t>(head.channels), head.channels});
}

TestRows GatherTest(const LayerData& layer, Side which, int head) {
  const HeadView all = layer.sides[static_cast<std::size_t>(which)].head(head);
  TestRows test{GatherRows(all, layer.tokens.test), {}, {}};
  test.view = {test.values.data(), NumTokens(layer.tokens.test), static_cast<std::size_t>(all.channels),
               all.channels};
  test.mean = FitMean(all, layer.table.side(which).heads[static_cast<std::size_t>(head)], layer.tokens.fit);
  return test;
}

// error(first row, end row) of every run of the test tokens.
template <class Error>
std::vector<double> ForRuns(const HeadView& test, const Error& error) {
  std::vector<double> runs;
  for (std::size_t r = 0; r < kNumRuns; ++r)
    runs.push_back(error(r * test.num_tokens / kNumRuns, (r + 1) * test.num_tokens / kNumRuns));
  return runs;
}

std::span<const float> RowsOf(const std::vector<float>& all, int channels, std::size_t begin,
                              std::size_t end) {
  const auto c = static_cast<std::size_t>(channels);
  return {all.data() + begin * c, (end - begin) * c};
}

std::vector<double> ReconstructionRuns(const SideTable& side, int head, Baseline baseline,
                                       const HeadView& test) {
  const std::vector<float> stored = RoundTrip(side.codec, BaselineTable(side, head, baseline), test);
  return ForRuns(test, [&](std::size_t begin, std::size_t end) {
    Distortion d;
    for (std::size_t t = begin; t < end; ++t) d.Add(test.row(t), RowsOf(stored, test.channels, t, t + 1), {});
    return d.error_energy;
  });
}

// Logit errors as the quadratic form under q_moment. Energy: of keys around the fit mean.
RunErrors MomentRuns(const SideTable& side, int head, const TestRows& test, const Metric& moment) {
  std::vector<float> means;
  const std::vector<float> mean =
      test.mean.empty() ? std::vector<float>(static_cast<std::size_t>(test.view.channels)) : test.mean;
  for (std::size_t t = 0; t < test.view.num_tokens; ++t) means.insert(means.end(), mean.begin(), mean.end());
  const auto runs_of = [&](const std::vector<float>& stored) {
    return ForRuns(test.view, [&](std::size_t begin, std::size_t end) {
      return MetricError(moment, test.view.tokens(begin, end),
                         RowsOf(stored, test.view.channels, begin, end));
    });
  };
  const std::vector<double> energies = runs_of(means);
  RunErrors runs(kNumBaselines, std::vector<AttentionErrors>(kNumRuns));
  for (std::size_t b = 0; b < kNumBaselines; ++b) {
    const auto errors =
        runs_of(RoundTrip(side.codec, BaselineTable(side, head, Baselines()[b].value), test.view));
    for (std::size_t r = 0; r < kNumRuns; ++r) {
      runs[b][r].logit_error = errors[r];
      runs[b][r].logit_energy = energies[r];
    }
  }
  return runs;
}

std::vector<double> DecisionRuns(const std::vector<AttentionErrors>& runs, Objective objective, Side side) {
  std::vector<double> errors;
  for (const AttentionErrors& run : runs)
    errors.push_back(objective == Objective::kLogit ? run.logit_error
                     : side == Side::kKey           ? run.output.keys
                                                    : run.output.values);
  return errors;
}

std::optional<Verdict> Judge(const SideTable& side, Side which, int head, const TestRows& test,
                             const RunErrors& attention) {
  // The same map; a butterfly's start rounds a little otherwise than the fast transform.
  if (side.heads[static_cast<std::size_t>(head)].chosen == Chosen::kHadamard) return Verdict{{1, 1, 1}};
  const Objective objective = side.outcomes[static_cast<std::size_t>(head)].objective;
  std::vector<double> calibrated, hadamard;
  if (objective == Objective::kMse) {
    calibrated = ReconstructionRuns(side, head, Baseline::kCalibrated, test.view);
    hadamard = ReconstructionRuns(side, head, Baseline::kHadamardOffset, test.view);
  } else if (!attention.empty()) {
    calibrated = DecisionRuns(attention[kCalibratedIndex], objective, which);
    hadamard = DecisionRuns(attention[kHadamardOffsetIndex], objective, which);
  }
  const RatioInterval interval = BootstrapRatio(calibrated, hadamard);
  if (std::isnan(interval.ratio)) return std::nullopt;
  return Verdict{interval};
}

ChannelRms MeasureChannels(const SideTable& side, int head, const HeadView& test) {
  const auto rms = [&](std::span<const float> rows) {
    const auto channels = static_cast<std::size_t>(test.channels);
    std::vector<double> energy(channels, 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i)
      energy[i % channels] += static_cast<double>(rows[i]) * static_cast<double>(rows[i]);
    std::vector<float> out;
    for (const double e : energy)
      out.push_back(static_cast<float>(std::sqrt(e / static_cast<double>(test.num_tokens))));
    return out;
  };
  std::vector<float> rows(test.data, test.data + test.num_tokens * test.token_stride);
  ChannelRms channels{rms(rows), {}};
  HeadCodec(side.codec, side.heads[static_cast<std::size_t>(head)]).Rotate(rows);
  channels.rotated = rms(rows);
  return channels;
}

double HeadroomDb(const HeadTable& table, const Distortion& calibrated, double limit) {
  const bool centred = !table.transform.offset.empty() && calibrated.centred_energy > 0;
  return 10 * std::log10((centred ? calibrated.nmse_centred() : calibrated.nmse()) / limit);
}

HeadReport MeasureHead(const LayerData& layer, Side which, int head, RunErrors attention) {
  const SideTable& side = layer.table.side(which);
  const HeadTable& table = side.heads[static_cast<std::size_t>(head)];
  const TestRows test = GatherTest(layer, which, head);
  HeadReport report;
  report.layer = layer.table.layer;
  report.side = which;
  report.head = head;
  report.table_bytes = SerializeHeadTable(side.codec, table).size();
  const std::vector<BaselineError> errors = MeasureBaselines(side, head, test.view, test.mean);
  std::copy_n(errors.begin(), kNumBaselines, report.errors.begin());
  if (which == Side::kKey && !layer.query_moments.empty()) {
    attention = MomentRuns(side, head, test, layer.query_moments[static_cast<std::size_t>(head)]);
    report.attention.logits_from_moment = true;
  }
  for (std::size_t b = 0; b < attention.size(); ++b)
    for (const AttentionErrors& run : attention[b]) report.attention.baselines[b].Merge(run);
  report.headroom_db = HeadroomDb(table, report.errors[kCalibratedIndex].distortion,
                                  layer.limits[static_cast<std::size_t>(which)]);
  report.verdict = Judge(side, which, head, test, attention);
  report.channels = MeasureChannels(side, head, test.view);
  return report;
}

}  // namespace

std::vector<HeadReport> MeasureLayer(const RotationTable& table, const LayerTable& layer, const KvDump& dump,
                                     const ReportTokens& tokens, MissingByReason& missing) {
  const LayerData data = ReadLayer(table, layer, dump, tokens, missing);
  const std::size_t num_heads = layer.sides[0].heads.size();
  std::vector<HeadReport> reports(2 * num_heads);
  ParallelFor(num_heads, [&](std::size_t h) {
    const int head = static_cast<int>(h);
    const RunErrors attention = data.queries ? MeasurePair(data, head) : RunErrors();
    for (const Side side : kSides)
      reports[static_cast<std::size_t>(side) * num_heads + h] = MeasureHead(data, side, head, attention);
  });
  return reports;
}

}  // namespace so4cal
