// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/activations.h"
#include "lib/distortion.h"
#include "lib/rotation_table.h"

namespace so4cal {

// The ways to store a head that a report compares, all with the table's bits, block, grid and scale rule.
// calib/MATH.md section 6. Names are the keys of the report.
enum class Baseline {
  kNone,
  kHadamard,
  kHadamardOffsetNearest,
  kHadamardOffset,
  kCalibratedNearest,
  kCalibrated
};
std::span<const Named<Baseline>> Baselines();

// The head as `baseline` stores it.
HeadTable BaselineTable(const SideTable& side, int head, Baseline baseline);

// Error of one head under one baseline.
struct BaselineError {
  Distortion distortion;
  // Share of (token, run of `block` raw channels) with less error energy than under `hadamard_offset`;
  // absent for `hadamard_offset` itself.
  std::optional<double> blocks_improved;
};

// Encodes and decodes `tokens` of one head under every baseline, in the order of Baselines(). `fit_mean`:
// mean of the fit tokens per channel, for the centred error; empty when unknown (centred_energy is then 0).
// Throws Error when a token is not encodable (NaN, Inf, overflow), naming token and channel.
std::vector<BaselineError> MeasureBaselines(const SideTable& side, int head, const HeadView& tokens,
                                            std::span<const float> fit_mean);

// Tokens of one head through encoder and decoder: [token][channel], raw frame. Throws Error when a token is
// not encodable.
std::vector<float> RoundTrip(const CodecSpec& codec, const HeadTable& table, const HeadView& tokens);

// All tokens of the head as `table` stores those in `ranges`, the others zero: [token][channel], raw frame.
// Throws Error when a token is not encodable.
std::vector<float> StoreRanges(const CodecSpec& spec, const HeadTable& table, const HeadView& head,
                               std::span<const TokenRange> ranges);

// Error of one head stored with `table`.
Distortion MeasureDistortion(const CodecSpec& codec, const HeadTable& table, const HeadView& tokens,
                             std::span<const float> fit_mean);

// Per-channel mean in double.
std::vector<float> ChannelMean(const HeadView& tokens);

// exp of the mean logarithm; NaN for an empty list.
double GeometricMean(std::span<const double> values);

}  // namespace so4cal
