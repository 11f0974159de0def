// SPDX-License-Identifier: Apache-2.0
#include "calib/calibrate_head.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "calib/metric_loss.h"
#include "calib/metrics.h"
#include "calib/shrink.h"
#include "lib/error.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

// Damping of the metric inside the fit, where validation has not chosen one yet.
constexpr double kFitDamping = 0.01;

std::vector<Stage> StartStages(Family family, int head_dim) {
  constexpr int kOneStage[] = {1};
  if (family == Family::kNone) return {};
  if (family == Family::kButterfly) return HadamardStages(head_dim);
  return IdentityStages(head_dim, kOneStage);
}

HeadView View(const std::vector<float>& rows, int channels) {
  const auto c = static_cast<std::size_t>(channels);
  return {rows.data(), rows.size() / c, c, channels};
}

Metric MetricOf(const HeadInput& input, const TokenSplit& split) {
  if (input.attention == nullptr) return {};
  const LayerAttention& a = *input.attention;
  if (input.side == Side::kValue)
    return a.w_o.empty() || a.num_query_heads == 0
               ? Metric{}
               : OutputMetric(a.w_o, a.w_o_rows, a.num_query_heads, input.head.channels, input.kv_head,
                              input.num_kv_heads);
  if (a.queries.num_heads > 0)
    return QueryMoment(a.queries, a.positions, input.kv_head, input.num_kv_heads, split.fit);
  return a.query_moments.empty() ? Metric{} : a.query_moments[static_cast<std::size_t>(input.kv_head)];
}

std::optional<KeyJudge> MakeKeyJudge(const HeadInput& input, const CodecSpec& codec,
                                     const TokenSplit& split) {
  if (input.side == Side::kValue || input.attention == nullptr || split.validation.empty()) return {};
  return KeyJudge(*input.attention, input.head, input.kv_head, input.num_kv_heads, codec, split.validation);
}

const char* NeededFor(Side side) {
  return side == Side::kKey ? "the queries (q or q_moment) of its fit tokens" : "the output projection (w_o)";
}

Rounding ResolveRounding(const HeadInput& input, RoundingChoice choice, const Metric& metric) {
  if (choice == RoundingChoice::kAuto)
    return input.side == Side::kKey && !metric.empty() ? Rounding::kRefined : Rounding::kNearest;
  if (choice == RoundingChoice::kNearest) return Rounding::kNearest;
  if (metric.empty())
    throw Error(std::string("--rounding feedback and refined on side ") + SideName(input.side) + " need " +
                NeededFor(input.side) + ", which this dump lacks: use --rounding nearest");
  return choice == RoundingChoice::kFeedback ? Rounding::kFeedback : Rounding::kRefined;
}

// Several: validation chooses.
std::vector<Objective> ResolveObjectives(const HeadInput& input, ObjectiveChoice choice, const Metric& metric,
                                         bool has_validation) {
  const Objective weighted = input.side == Side::kKey ? Objective::kLogit : Objective::kOutput;
  switch (choice) {
    case ObjectiveChoice::kMse:
      return {Objective::kMse};
    case ObjectiveChoice::kAuto:
      if (metric.empty()) return {Objective::kMse};
      if (input.side == Side::kKey) return {Objective::kLogit};
      return has_validation ? std::vector{Objective::kMse, weighted} : std::vector{Objective::kMse};
    case ObjectiveChoice::kLogit:
    case ObjectiveChoice::kOutput:
      break;
  }
  if (metric.empty())
    throw Error("--objective " + std::string(NameOf(Objectives(), weighted)) + " needs " +
                NeededFor(input.side) + ", which this dump lacks: use --objective mse");
  return {weighted};
}

}  // namespace

HeadTransform StartTransform(const SideOptions& side, int head_dim) {
  HeadTransform t;
  t.head_dim = head_dim;
  t.hadamard = side.ResolvedHadamard();
  t.stages = StartStages(side.rotation, head_dim);
  return t;
}

HeadCalibration::HeadCalibration(const HeadInput& input, const TokenSplit& split, const SideOptions& side,
                                 int max_iterations)
    : head_(input.head),
      side_(side),
      max_iterations_(max_iterations),
      codec_(side.Codec(input.head.channels)),
      start_(StartTransform(side, input.head.channels).stages),
      start_rows_(GatherRows(input.head, split.fit)),
      validation_rows_(GatherRows(input.head, split.validation)),
      test_rows_(GatherRows(input.head, split.test)),
      metric_(MetricOf(input, split)) {
  rounding_ = ResolveRounding(input, side.rounding, metric_);
  judge_.emplace(codec_, validation_rows_, metric_, MakeKeyJudge(input, codec_, split));
  if (side.offset == OffsetRule::kMean) offset_ = ChannelMean(View(start_rows_, head_.channels));
  HeadCodec(codec_, WithStages({}, Chosen::kHadamard)).Rotate(start_rows_);
  for (const Objective objective :
       ResolveObjectives(input, side.objective, metric_, !split.validation.empty())) {
    const bool exact_only = objective == Objective::kMse && side.loss == LossChoice::kExact;
    AddPlan(objective, exact_only ? LossKind::kExact : LossKind::kExpected, false);
    if (objective == Objective::kMse && side.loss == LossChoice::kAuto)
      AddPlan(objective, LossKind::kExact, true);
  }
}

void HeadCalibration::AddPlan(Objective objective, LossKind loss, bool polish) {
  // Blocks of one stage of stride 1 meet others only inside a quantization block, unless a metric couples
  // all.
  const bool separable = objective == Objective::kMse && start_.size() == 1 && start_[0].stride == 1;
  const int num_slices = separable ? head_.channels / std::lcm(codec_.block, 4) : 1;
  plans_.push_back({objective, loss, num_slices, num_parts(), polish});
  if (!start_.empty()) fits_.resize(fits_.size() + static_cast<std::size_t>(num_slices));
}

std::size_t HeadCalibration::PlanOf(int part) const {
  const auto after = std::ranges::find_if(plans_, [&](const Plan& p) { return p.first_part > part; });
  return static_cast<std::size_t>(after - plans_.begin()) - 1;
}

std::unique_ptr<RotationLoss> HeadCalibration::MakeLoss(const Plan& plan, const StageShape& shape,
                                                        int first_channel) const {
  if (plan.objective == Objective::kMse)
    return std::make_unique<TokenLoss<float>>(shape, plan.loss, codec_, start_rows_,
                                              static_cast<std::size_t>(head_.channels),
                                              static_cast<std::size_t>(first_channel));
  const Rounding form = rounding_ == Rounding::kNearest ? Rounding::kNearest : Rounding::kFeedback;
  return std::make_unique<MetricLoss>(shape, codec_, start_rows_, metric_,
                                      WithStages({}, Chosen::kHadamard).transform, form,
                                      side_.damping.value_or(kFitDamping));
}

void HeadCalibration::FitPart(int part) {
  const std::size_t plan = PlanOf(part);
  if (plans_[plan].polish) return;  // done with the part that it starts from
  FitSlice(plan, part - plans_[plan].first_part);
  if (plan + 1 < plans_.size() && plans_[plan + 1].polish) FitSlice(plan + 1, part - plans_[plan].first_part);
}

void HeadCalibration::FitSlice(std::size_t index, int slice) {
  const Plan& plan = plans_[index];
  const auto part = static_cast<std::size_t>(plan.first_part + slice);
  const int channels = head_.channels / plan.num_slices;
  StageShape shape{.channels = channels, .strides = {}};
  std::vector<Stage> start = start_;
  for (Stage& s : start) {
    shape.strides.push_back(s.stride);
    if (plan.num_slices == 1) continue;
    const auto first = s.blocks.begin() + slice * channels / 4;
    s.blocks = std::vector<So4>(first, first + channels / 4);
  }
  if (plan.polish) start = fits_[part - static_cast<std::size_t>(plan.num_slices)].stages;
  const auto loss = MakeLoss(plan, shape, slice * channels);
  // Half as many steps: what polishing gains comes early, and each step is dearer.
  const int iterations = plan.polish ? (max_iterations_ + 1) / 2 : max_iterations_;
  fits_[part] = FitStages(*loss, side_.rotation, start, iterations);
}

// The side's Hadamard flag and the head's offset, with these stages.
HeadTable HeadCalibration::WithStages(std::vector<Stage> stages, Chosen chosen) const {
  HeadTable table;
  table.transform.head_dim = head_.channels;
  table.transform.hadamard = side_.ResolvedHadamard();
  table.transform.stages = std::move(stages);
  table.transform.offset = offset_;
  table.chosen = chosen;
  return table;
}

HeadCalibration::Candidate HeadCalibration::FittedCandidate(const Plan& plan) const {
  std::vector<Stage> stages = start_;
  Candidate c;
  c.outcome.loss = plan.loss;
  c.outcome.objective = plan.objective;
  for (int slice = 0; slice < plan.num_slices; ++slice) {
    const StagesFit& fit = fits_[static_cast<std::size_t>(plan.first_part + slice)];
    for (std::size_t s = 0; s < stages.size(); ++s)
      std::ranges::copy(fit.stages[s].blocks,
                        stages[s].blocks.begin() + slice * (head_.channels / plan.num_slices / 4));
    c.outcome.iterations += fit.iterations;
    if (!fit.converged) c.outcome.converged = 0;
  }
  c.table = judge_->WithRounding(WithStages(std::move(stages), Chosen::kFitted), rounding_, side_);
  return c;
}

// Among the plans, each judged by the last one's objective, and then among points on the way to it.
HeadCalibration::Candidate HeadCalibration::BestFitted() const {
  const Objective objective = plans_.back().objective;
  Candidate best;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    Candidate c = FittedCandidate(plans_[i]);
    c.score = judge_->Score(c.table, objective);
    if (i == 0 || !(c.score >= best.score)) best = std::move(c);  // without validation tokens: the last
  }
  if (judge_->empty()) return best;
  best.score = judge_->Score(best.table, best.outcome.objective);
  const std::vector<Stage> fitted = best.table.transform.stages;
  for (const double share : kShrinkShares) {
    HeadTable shrunk = best.table;
    shrunk.transform.stages = Shrink(start_, fitted, share);
    const double score = judge_->Score(shrunk, best.outcome.objective);
    if (score >= best.score) continue;
    best.score = score;
    best.outcome.shrink = static_cast<float>(share);
    best.table = std::move(shrunk);
  }
  return best;
}

HeadErrors HeadCalibration::MeasureErrors(const HeadTable& chosen, const HeadTable& fitted) const {
  const auto nmse = [&](const std::vector<float>& rows, const HeadTable& table) {
    if (rows.empty()) return std::numeric_limits<double>::quiet_NaN();
    return MeasureDistortion(codec_, table, View(rows, head_.channels), {}).nmse();
  };
  HeadTable hadamard = chosen;
  hadamard.chosen = Chosen::kHadamard;
  hadamard.transform = {.head_dim = head_.channels, .hadamard = true, .offset = offset_};
  HeadTable identity = chosen;
  identity.chosen = Chosen::kIdentity;
  HeadErrors errors;
  errors.validation_identity = nmse(validation_rows_, identity);
  errors.validation_hadamard = nmse(validation_rows_, hadamard);
  errors.validation_fitted =
      start_.empty() ? std::numeric_limits<double>::quiet_NaN() : nmse(validation_rows_, fitted);
  errors.test_hadamard = nmse(test_rows_, hadamard);
  errors.test_chosen = nmse(test_rows_, chosen);
  return errors;
}

HeadCalibration::Result HeadCalibration::Finish() {
  const bool start_is_identity = !side_.ResolvedHadamard() && side_.rotation != Family::kButterfly;
  const HeadTable start = WithStages(start_, start_is_identity ? Chosen::kIdentity : Chosen::kHadamard);
  Candidate best;
  if (start_.empty()) {
    best.outcome.objective = plans_.front().objective;
    best.table = judge_->WithRounding(start, rounding_, side_);
    best.score = judge_->Score(best.table, best.outcome.objective);
  } else {
    best = BestFitted();
  }
  const HeadTable fitted = best.table;
  // Plain Hadamard and identity, stored with the same rounding; a choice of theirs picks its own.
  const auto consider = [&](const HeadTable& plain) {
    HeadTable other = fitted;
    other.chosen = plain.chosen;
    other.transform = plain.transform;
    const double score = judge_->Score(other, best.outcome.objective);
    if (!(score <= best.score)) return;  // without validation tokens: the fit
    best.table = judge_->WithRounding(plain, rounding_, side_);
    best.score = score;
    best.outcome.shrink = 0;
  };
  if (!start_.empty()) consider(start);
  if (!start_is_identity) consider(WithStages(start_, Chosen::kIdentity));
  best.outcome.errors = MeasureErrors(best.table, fitted);
  return {std::move(best.table), best.outcome};
}

}  // namespace so4cal
