// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_options.h"

#include <algorithm>
#include <string>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr Named<HadamardChoice> kHadamardChoices[] = {
    {HadamardChoice::kAuto, "auto", "on, except for a butterfly, which starts as a Hadamard transform"},
    {HadamardChoice::kOn, "on", "Hadamard transform before the blocks"},
    {HadamardChoice::kOff, "off", "no Hadamard transform"},
};
constexpr Named<OffsetRule> kOffsetRules[] = {
    {OffsetRule::kNone, "none", "store the activations as they are"},
    {OffsetRule::kMean, "mean", "subtract the mean of the fit tokens"},
};
constexpr Named<LossChoice> kLossChoices[] = {
    {LossChoice::kAuto, "auto", "expected, then exact from its optimum; validation tokens decide per head"},
    {LossChoice::kExpected, "expected", "expected rounding noise of the block scales"},
    {LossChoice::kExact, "exact", "the rounding error itself"},
};

constexpr Named<ObjectiveChoice> kObjectiveChoices[] = {
    {ObjectiveChoice::kAuto, "auto", "logit or output where the dump allows and validation agrees, else mse"},
    {ObjectiveChoice::kMse, "mse", "reconstruction"},
    {ObjectiveChoice::kLogit, "logit", "attention logits (keys; needs queries)"},
    {ObjectiveChoice::kOutput, "output", "attention output (values; needs w_o)"},
};
constexpr Named<RoundingChoice> kRoundingChoices[] = {
    {RoundingChoice::kAuto, "auto",
     "keys refined where the dump has queries, values feedback where it pays, else nearest"},
    {RoundingChoice::kNearest, "nearest", "each coordinate to its nearest level"},
    {RoundingChoice::kFeedback, "feedback",
     "errors are pushed on to later coordinates under the head's metric"},
    {RoundingChoice::kRefined, "refined", "feedback, then rounds of joint scales and coordinate sweeps"},
};

constexpr Named<Share> kShares[] = {
    {Share::kHead, "head", "a rotation for each head"},
    {Share::kLayer, "layer", "one rotation for all heads of one side of a layer"},
};

SideOptions SeedSide() {
  SideOptions side;
  side.block = 32;
  side.grid = GridKind::kSymmetric;
  side.scale = ScaleRule::kAbsmax;
  side.rotation = Family::kSo4;
  side.offset = OffsetRule::kNone;
  side.loss = LossChoice::kAuto;
  side.objective = ObjectiveChoice::kMse;
  side.rounding = RoundingChoice::kNearest;
  return side;
}

FitOptions WithSides(const SideOptions& side) {
  FitOptions options;
  options.sides = {side, side};
  return options;
}

}  // namespace

std::span<const Named<HadamardChoice>> HadamardChoices() { return kHadamardChoices; }
std::span<const Named<OffsetRule>> OffsetRules() { return kOffsetRules; }
std::span<const Named<LossChoice>> LossChoices() { return kLossChoices; }
std::span<const Named<ObjectiveChoice>> ObjectiveChoices() { return kObjectiveChoices; }
std::span<const Named<RoundingChoice>> RoundingChoices() { return kRoundingChoices; }
std::span<const Named<Share>> Shares() { return kShares; }

void SideOptions::Check() const {
  if (!(bits >= 2 && bits <= 4))
    throw UsageError("--bits is " + std::to_string(bits) + ", expected 2, 3 or 4");
  if (!(block == 0 || (block >= 2 && block <= 1024)))
    throw UsageError("--block is " + std::to_string(block) + ", expected 2 to 1024, or 0 to pick one");
  if (rotation == Family::kDense)
    throw UsageError("--rotation dense can't be fitted: expected butterfly, so4, left, planar or none");
  if (rotation == Family::kButterfly && hadamard == HadamardChoice::kOn)
    throw UsageError(
        "--hadamard on with --rotation butterfly: a butterfly starts as a Hadamard transform; "
        "expected --hadamard auto or off, or --rotation so4");
  if (damping && !(*damping >= 0 && *damping <= 10))
    throw UsageError("--damping is " + std::to_string(*damping) + ", expected 0 to 10, or auto");
  if (rounds && !(*rounds >= 0 && *rounds <= 16))
    throw UsageError("--rounds is " + std::to_string(*rounds) + ", expected 0 to 16, or auto");
  if (!(signs >= 1 && signs <= 64))
    throw UsageError("--signs is " + std::to_string(signs) + ", expected 1 (no signs) to 64");
  if (!(restarts >= 0 && restarts <= 64))
    throw UsageError("--restarts is " + std::to_string(restarts) + ", expected 0 to 64");
}

CodecSpec SideOptions::Codec(int head_dim) const {
  CodecSpec codec;
  codec.head_dim = head_dim;
  codec.bits = bits;
  codec.block = block != 0 ? block : std::min(32, PowerOfTwoPart(head_dim));
  codec.grid = grid;
  codec.scale = scale;
  if (codec.head_dim % codec.block != 0)
    throw Error("--block is " + std::to_string(block) + ", expected a divisor of head_dim, which is " +
                std::to_string(head_dim) + " in this dump: leave --block out to get " +
                std::to_string(std::min(32, PowerOfTwoPart(head_dim))));
  codec.Check();
  return codec;
}

bool SideOptions::ResolvedHadamard() const {
  if (hadamard == HadamardChoice::kAuto) return rotation != Family::kButterfly;
  return hadamard == HadamardChoice::kOn;
}

void FitOptions::Check() const {
  for (const SideOptions& side : sides) side.Check();
  if (sides[static_cast<std::size_t>(Side::kKey)].objective == ObjectiveChoice::kOutput)
    throw UsageError("--objective output is for values: expected auto, mse or logit for keys");
  if (sides[static_cast<std::size_t>(Side::kValue)].objective == ObjectiveChoice::kLogit)
    throw UsageError("--objective logit is for keys: expected auto, mse or output for values");
  split.Check();
  if (!(max_iterations >= 1 && max_iterations <= 10000))
    throw UsageError("--max-iterations is " + std::to_string(max_iterations) + ", expected 1 to 10000");
  if (!(threads >= 0 && threads <= 1024))
    throw UsageError("--threads is " + std::to_string(threads) + ", expected 0 (all cores) to 1024");
}

SideOptions FitOptions::ForLayer(int layer, Side side) const {
  SideOptions options = sides[static_cast<std::size_t>(side)];
  if (plan.empty()) return options;
  const auto found = plan.find(layer);
  if (found == plan.end() || !found->second[static_cast<std::size_t>(side)])
    throw Error("--plan has no entry for layer " + std::to_string(layer) + " " + SideName(side) +
                ": expected one for every layer and side that is fitted");
  const BitChoice& choice = *found->second[static_cast<std::size_t>(side)];
  options.bits = choice.bits;
  options.block = choice.block;
  return options;
}

std::span<const Preset> Presets() {
  static const Preset kPresets[] = {
      {"best", "butterfly, mean offset, lloyd grid, mse scale", FitOptions{}},
      {"seed", "the original proposal: Hadamard and one stage of SO(4) blocks, symmetric grid, absmax scale",
       WithSides(SeedSide())},
  };
  return kPresets;
}

}  // namespace so4cal
