// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "calib/bit_plan.h"
#include "calib/split.h"
#include "lib/names.h"
#include "lib/rotation_table.h"

namespace so4cal {

enum class HadamardChoice { kAuto, kOn, kOff };
enum class OffsetRule { kNone, kMean };
enum class LossChoice { kAuto, kExpected, kExact };
enum class ObjectiveChoice { kAuto, kMse, kLogit, kOutput };
enum class Share { kHead, kLayer };
enum class RoundingChoice { kAuto, kNearest, kFeedback, kRefined };

std::span<const Named<HadamardChoice>> HadamardChoices();    // auto, on, off
std::span<const Named<OffsetRule>> OffsetRules();            // none, mean
std::span<const Named<LossChoice>> LossChoices();            // auto, expected, exact
std::span<const Named<ObjectiveChoice>> ObjectiveChoices();  // auto, mse, logit, output
std::span<const Named<RoundingChoice>> RoundingChoices();    // auto, nearest, feedback, refined
std::span<const Named<Share>> Shares();                      // head, layer

// What is fitted and stored on one side. Defaults: the preset `best`.
struct SideOptions {
  int bits = 3;   // per code: 2, 3 or 4
  int block = 0;  // channels per scale; 0: the largest power of two <= 32 that fits
  GridKind grid = GridKind::kLloyd;
  ScaleRule scale = ScaleRule::kMse;
  Family rotation = Family::kButterfly;             // not kDense
  HadamardChoice hadamard = HadamardChoice::kAuto;  // auto: off for a butterfly, on for every other family
  OffsetRule offset = OffsetRule::kMean;
  LossChoice loss = LossChoice::kAuto;
  // auto: keys `logit` where the dump has queries, else `mse`; values `mse`, or `output` where validation
  // prefers it.
  ObjectiveChoice objective = ObjectiveChoice::kAuto;
  // auto: keys `refined` where the dump has queries, else `nearest`; values `nearest`, or `feedback` under
  // w_o for heads fitted for the output where that lowers its error on validation tokens by a twentieth or
  // more.
  RoundingChoice rounding = RoundingChoice::kAuto;
  // Of feedback and refined rounding, relative to the mean diagonal of the metric. [0, 10]; absent:
  // validation chooses per head by attention KL.
  std::optional<double> damping;
  // Rounds of refinement, [0, 16]; absent: validation chooses.
  std::optional<int> rounds;
  // Sign patterns before the rotation to fit with, the first is none; validation chooses. [1, 64]
  int signs = 1;
  // Further fits from random starts; validation chooses. [0, 64]
  int restarts = 0;
  Share share = Share::kHead;  // who has one rotation together; offset and rounding stay per head

  void Check() const;  // throws UsageError that names the option
  // The codec for heads of this size. Throws Error when the block does not divide head_dim.
  CodecSpec Codec(int head_dim) const;
  bool ResolvedHadamard() const;
};

struct FitOptions {
  std::array<SideOptions, 2> sides;  // indexed by Side
  BitPlan plan;                      // sets bits and block of every layer; empty: as in `sides`
  SplitOptions split;
  int max_iterations = 200;  // of the solver, per independent problem. [1, 10000]
  int threads = 0;           // 0: all cores. Never changes the result. [0, 1024]
  std::uint64_t seed = 1;

  void Check() const;  // throws UsageError
  // With the plan's bits and block. Throws Error when there is a plan without this layer and side.
  SideOptions ForLayer(int layer, Side side) const;
};

// The presets of the command line: `seed` is the original proposal, `best` the default.
struct Preset {
  std::string_view name;
  std::string_view summary;
  FitOptions options;
};
std::span<const Preset> Presets();

}  // namespace so4cal
