// SPDX-License-Identifier: Apache-2.0
#include "calib/calibrate_head.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "calib/metrics.h"
#include "calib/shrink.h"
#include "lib/error.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

std::vector<LossKind> LossesToTry(const SideOptions& side) {
  if (side.rotation == Family::kNone) return {};
  switch (side.loss) {
    case LossChoice::kExpected:
      return {LossKind::kExpected};
    case LossChoice::kExact:
      return {LossKind::kExact};
    case LossChoice::kAuto:
      break;
  }
  return {LossKind::kExpected, LossKind::kExact};
}

std::vector<Stage> StartStages(Family family, int head_dim) {
  constexpr int kOneStage[] = {1};
  if (family == Family::kNone) return {};
  if (family == Family::kButterfly) return HadamardStages(head_dim);
  return IdentityStages(head_dim, kOneStage);
}

// Channels that a problem of its own needs: blocks of one stage of stride 1 meet others only inside a
// quantization block.
int SliceChannels(const std::vector<Stage>& stages, const CodecSpec& codec) {
  const bool separable = stages.size() == 1 && stages[0].stride == 1;
  return separable ? std::lcm(codec.block, 4) : codec.head_dim;
}

HeadView View(const std::vector<float>& rows, int channels) {
  const auto c = static_cast<std::size_t>(channels);
  return {rows.data(), rows.size() / c, c, channels};
}

}  // namespace

HeadTransform StartTransform(const SideOptions& side, int head_dim) {
  HeadTransform t;
  t.head_dim = head_dim;
  t.hadamard = side.ResolvedHadamard();
  t.stages = StartStages(side.rotation, head_dim);
  return t;
}

HeadCalibration::HeadCalibration(const HeadView& head, const TokenSplit& split, const SideOptions& side,
                                 int max_iterations)
    : head_(head),
      split_(split),
      side_(side),
      max_iterations_(max_iterations),
      codec_(side.Codec(head.channels)),
      losses_(LossesToTry(side)),
      start_(StartTransform(side, head.channels).stages),
      start_rows_(GatherRows(head, split.fit)),
      validation_rows_(GatherRows(head, split.validation)) {
  if (side.offset == OffsetRule::kMean) offset_ = ChannelMean(View(start_rows_, head.channels));
  const HeadTable before_stages{.transform = TransformWith({})};
  HeadCodec(codec_, before_stages).Rotate(start_rows_);
  slice_channels_ = SliceChannels(start_, codec_);
  num_slices_ = head.channels / slice_channels_;
  fits_.resize(static_cast<std::size_t>(num_parts()));
}

HeadTransform HeadCalibration::TransformWith(std::vector<Stage> stages) const {
  HeadTransform t;
  t.head_dim = head_.channels;
  t.hadamard = side_.ResolvedHadamard();
  t.stages = std::move(stages);
  t.offset = offset_;
  return t;
}

void HeadCalibration::FitPart(int part) {
  const int slice = part % num_slices_;
  const LossKind kind = losses_[static_cast<std::size_t>(part / num_slices_)];
  const int first_channel = slice * slice_channels_;
  StageShape shape{.channels = slice_channels_, .strides = {}};
  std::vector<Stage> start = start_;
  for (Stage& s : start) {
    shape.strides.push_back(s.stride);
    if (num_slices_ == 1) continue;
    const auto first = s.blocks.begin() + first_channel / 4;
    s.blocks = std::vector<So4>(first, first + slice_channels_ / 4);
  }
  TokenLoss<float> loss(shape, kind, codec_, start_rows_, static_cast<std::size_t>(head_.channels),
                        static_cast<std::size_t>(first_channel));
  fits_[static_cast<std::size_t>(part)] = FitStages(loss, side_.rotation, start, max_iterations_);
}

HeadCalibration::Candidate HeadCalibration::FittedCandidate(std::size_t loss) const {
  std::vector<Stage> stages = start_;
  Candidate c;
  c.outcome.loss = losses_[loss];
  for (int slice = 0; slice < num_slices_; ++slice) {
    const StagesFit& fit =
        fits_[loss * static_cast<std::size_t>(num_slices_) + static_cast<std::size_t>(slice)];
    for (std::size_t s = 0; s < stages.size(); ++s)
      std::ranges::copy(fit.stages[s].blocks, stages[s].blocks.begin() + slice * slice_channels_ / 4);
    c.outcome.iterations += fit.iterations;
    if (!fit.converged) c.outcome.converged = 0;
  }
  c.table = {.transform = TransformWith(std::move(stages)), .chosen = Chosen::kFitted};
  return c;
}

double HeadCalibration::ValidationError(const HeadTable& table) const {
  if (validation_rows_.empty()) return std::numeric_limits<double>::quiet_NaN();
  return MeasureDistortion(codec_, table, View(validation_rows_, head_.channels), {}).nmse();
}

HeadCalibration::Candidate HeadCalibration::BestFitted() const {
  Candidate best;
  for (std::size_t loss = 0; loss < losses_.size(); ++loss) {
    Candidate c = FittedCandidate(loss);
    c.error = ValidationError(c.table);
    if (loss == 0 || c.error < best.error) best = std::move(c);
  }
  if (validation_rows_.empty()) return best;
  const std::vector<Stage> fitted = best.table.transform.stages;
  for (const double share : kShrinkShares) {
    HeadTable shrunk = best.table;
    shrunk.transform.stages = Shrink(start_, fitted, share);
    const double error = ValidationError(shrunk);
    if (error >= best.error) continue;
    best.error = error;
    best.outcome.shrink = static_cast<float>(share);
    best.table = std::move(shrunk);
  }
  return best;
}

HeadCalibration::Result HeadCalibration::Finish() {
  const HeadTransform start_transform = TransformWith(start_);
  const bool start_is_identity = !start_transform.hadamard && side_.rotation != Family::kButterfly;
  const HeadTable start{.transform = start_transform,
                        .chosen = start_is_identity ? Chosen::kIdentity : Chosen::kHadamard};
  const HeadTable identity{.transform = start_transform, .chosen = Chosen::kIdentity};
  HeadTable hadamard{.transform = TransformWith({}), .chosen = Chosen::kHadamard};
  hadamard.transform.hadamard = true;

  Candidate best{.table = start, .outcome = {}, .error = ValidationError(start)};
  HeadErrors errors;
  errors.validation_identity = ValidationError(identity);
  errors.validation_hadamard = ValidationError(hadamard);
  errors.validation_fitted = std::numeric_limits<double>::quiet_NaN();
  if (!losses_.empty()) {
    Candidate fitted = BestFitted();
    errors.validation_fitted = fitted.error;
    const bool better = !(fitted.error >= best.error);  // without validation tokens: the fit
    if (!better) {
      best.outcome = fitted.outcome;
      best.outcome.shrink = 0;
    } else {
      best = std::move(fitted);
    }
  }
  if (errors.validation_identity < best.error) {
    best.table = identity;
    best.outcome.shrink = 0;
  }
  const std::vector<float> test_rows = GatherRows(head_, split_.test);
  const auto test_error = [&](const HeadTable& table) {
    return test_rows.empty() ? std::numeric_limits<double>::quiet_NaN()
                             : MeasureDistortion(codec_, table, View(test_rows, head_.channels), {}).nmse();
  };
  errors.test_hadamard = test_error(hadamard);
  errors.test_chosen = test_error(best.table);
  best.outcome.errors = errors;
  return {std::move(best.table), best.outcome};
}

}  // namespace so4cal
