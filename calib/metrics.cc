// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics.h"

#include <cmath>
#include <limits>
#include <string>

#include "lib/error.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

constexpr Named<Baseline> kBaselines[] = {
    {Baseline::kNone, "none", "no transform, no offset"},
    {Baseline::kHadamard, "hadamard", "Hadamard transform, no offset"},
    {Baseline::kHadamardOffsetNearest, "hadamard_offset_nearest",
     "Hadamard transform, the table's offset, nearest"},
    {Baseline::kHadamardOffset, "hadamard_offset", "Hadamard transform, the table's offset and rounding"},
    {Baseline::kCalibratedNearest, "calibrated_nearest", "the table with nearest rounding"},
    {Baseline::kCalibrated, "calibrated", "the table as it is"},
};

HeadTable PlainTable(int head_dim, bool hadamard) {
  HeadTable table;
  table.transform.head_dim = head_dim;
  table.transform.hadamard = hadamard;
  table.chosen = hadamard ? Chosen::kHadamard : Chosen::kIdentity;
  return table;
}

void MakeNearest(HeadTable& table) {
  table.rounding = Rounding::kNearest;
  table.damping = 0;
  table.rounds = 0;
  table.metric.clear();
}

std::span<const float> Row(const std::vector<float>& rows, std::size_t t, int channels) {
  const auto c = static_cast<std::size_t>(channels);
  return {rows.data() + t * c, c};
}

Distortion Measure(const HeadView& tokens, const std::vector<float>& decoded, std::span<const float> mean) {
  Distortion d;
  for (std::size_t t = 0; t < tokens.num_tokens; ++t)
    d.Add(tokens.row(t), Row(decoded, t, tokens.channels), mean);
  return d;
}

// Error energy of every (token, run of `block` channels).
std::vector<double> BlockErrors(const HeadView& tokens, const std::vector<float>& decoded, int block) {
  std::vector<double> errors;
  for (std::size_t t = 0; t < tokens.num_tokens; ++t) {
    const auto x = tokens.row(t), x_hat = Row(decoded, t, tokens.channels);
    for (std::size_t c = 0; c < x.size(); ++c) {
      if (c % static_cast<std::size_t>(block) == 0) errors.push_back(0);
      const double e = static_cast<double>(x_hat[c]) - static_cast<double>(x[c]);
      errors.back() += e * e;
    }
  }
  return errors;
}

double ShareBelow(const std::vector<double>& values, const std::vector<double>& reference) {
  std::size_t below = 0;
  for (std::size_t i = 0; i < values.size(); ++i) below += values[i] < reference[i] ? 1 : 0;
  return static_cast<double>(below) / static_cast<double>(values.size());
}

}  // namespace

std::vector<float> RoundTrip(const CodecSpec& spec, const HeadTable& table, const HeadView& tokens) {
  const HeadCodec codec(spec, table);
  std::vector<std::uint8_t> rows(tokens.num_tokens * spec.row_bytes());
  std::vector<float> decoded(tokens.num_tokens * static_cast<std::size_t>(spec.head_dim));
  RowStatus status = codec.Encode(tokens, rows);
  if (status.ok()) status = codec.Decode(rows, decoded);
  if (!status.ok())
    throw Error("token " + std::to_string(status.row) + ", channel " + std::to_string(status.channel) +
                " of the tokens measured can't be stored: " + RowErrorText(status.error));
  return decoded;
}

std::span<const Named<Baseline>> Baselines() { return kBaselines; }

HeadTable BaselineTable(const SideTable& side, int head, Baseline baseline) {
  const HeadTable& calibrated = side.heads[static_cast<std::size_t>(head)];
  const int head_dim = side.codec.head_dim;
  HeadTable table = calibrated;
  switch (baseline) {
    case Baseline::kNone:
      return PlainTable(head_dim, false);
    case Baseline::kHadamard:
      return PlainTable(head_dim, true);
    case Baseline::kHadamardOffsetNearest:
    case Baseline::kHadamardOffset:
      table.transform = PlainTable(head_dim, true).transform;
      table.transform.offset = calibrated.transform.offset;
      table.chosen = Chosen::kHadamard;
      if (baseline == Baseline::kHadamardOffsetNearest) MakeNearest(table);
      return table;
    case Baseline::kCalibratedNearest:
      MakeNearest(table);
      return table;
    case Baseline::kCalibrated:
      break;
  }
  return table;
}

std::vector<BaselineError> MeasureBaselines(const SideTable& side, int head, const HeadView& tokens,
                                            std::span<const float> fit_mean) {
  const int block = side.codec.block;
  const std::vector<double> reference = BlockErrors(
      tokens, RoundTrip(side.codec, BaselineTable(side, head, Baseline::kHadamardOffset), tokens), block);
  std::vector<BaselineError> errors;
  for (const Named<Baseline>& row : Baselines()) {
    const std::vector<float> decoded = RoundTrip(side.codec, BaselineTable(side, head, row.value), tokens);
    BaselineError e{.distortion = Measure(tokens, decoded, fit_mean), .blocks_improved = {}};
    if (row.value != Baseline::kHadamardOffset)
      e.blocks_improved = ShareBelow(BlockErrors(tokens, decoded, block), reference);
    errors.push_back(e);
  }
  return errors;
}

Distortion MeasureDistortion(const CodecSpec& codec, const HeadTable& table, const HeadView& tokens,
                             std::span<const float> fit_mean) {
  return Measure(tokens, RoundTrip(codec, table, tokens), fit_mean);
}

std::vector<float> ChannelMean(const HeadView& tokens) {
  std::vector<double> sum(static_cast<std::size_t>(tokens.channels), 0.0);
  for (std::size_t t = 0; t < tokens.num_tokens; ++t) {
    const auto row = tokens.row(t);
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += static_cast<double>(row[c]);
  }
  std::vector<float> mean;
  for (const double s : sum) mean.push_back(static_cast<float>(s / static_cast<double>(tokens.num_tokens)));
  return mean;
}

std::vector<float> StoreRanges(const CodecSpec& spec, const HeadTable& table, const HeadView& head,
                               std::span<const TokenRange> ranges) {
  const HeadCodec codec(spec, table);
  const auto d = static_cast<std::size_t>(head.channels);
  std::vector<float> stored(head.num_tokens * d);
  std::vector<std::uint8_t> rows;
  for (const TokenRange& r : ranges) {
    rows.resize((r.end - r.begin) * spec.row_bytes());
    RowStatus status = codec.Encode(head.tokens(r.begin, r.end), rows);
    if (status.ok())
      status = codec.Decode(rows, std::span(stored).subspan(r.begin * d, (r.end - r.begin) * d));
    if (!status.ok())
      throw Error("token " + std::to_string(r.begin + status.row) + ", channel " +
                  std::to_string(status.channel) + " can't be stored: " + RowErrorText(status.error));
  }
  return stored;
}

double GeometricMean(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return values.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace so4cal
