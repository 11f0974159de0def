// SPDX-License-Identifier: Apache-2.0
#include "calib/calibrate_rotation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "calib/fit_starts.h"
#include "calib/metrics.h"
#include "calib/shared_loss.h"
#include "calib/shrink.h"
#include "lib/error.h"

namespace so4cal {
namespace {

// Feedback rounding of values costs d^2 / 2 products per row and a metric in the table: it must save this
// much.
constexpr double kFeedbackPays = 0.95;

// Lower, and anything is better than no score.
bool IsBetter(double score, double than) { return score < than || (std::isnan(than) && !std::isnan(score)); }

}  // namespace

RotationCalibration::RotationCalibration(std::span<const HeadInput> heads, const TokenSplit& split,
                                         const SideOptions& side, int max_iterations, std::uint64_t seed)
    : side_(side), max_iterations_(max_iterations) {
  SO4CAL_CHECK(!heads.empty());
  for (const HeadInput& head : heads) heads_.push_back(std::make_unique<HeadProblem>(head, split, side));
  plans_ = heads_[0]->Plans();
  starts_.push_back({{}, StartTransform(side, heads_[0]->head_dim()).stages, false});
  if (starts_[0].stages.empty()) return;
  AddStarts(side.signs, side.restarts, seed);
  num_slices_ = NumSlices();
  for (std::size_t s = 0; s < starts_.size(); ++s)
    for (std::size_t p = 0; p < plans_.size(); ++p) {
      if (!plans_[p].polish)
        part_runs_.insert(part_runs_.end(), static_cast<std::size_t>(num_slices_), runs_.size());
      runs_.push_back({s, p, std::vector<StagesFit>(static_cast<std::size_t>(num_slices_)), {}});
    }
}

void RotationCalibration::AddStarts(int num_signs, int num_restarts, std::uint64_t seed) {
  const std::vector<Stage> stages = starts_[0].stages;
  for (int i = 1; i < num_signs; ++i)
    starts_.push_back({SeededSigns(heads_[0]->head_dim(), seed, i), stages, false});
  for (int i = 1; i <= num_restarts; ++i)
    starts_.push_back({{}, PerturbedStages(side_.rotation, stages, seed, i), true});
}

// Blocks of one stage of stride 1 meet others only inside a quantization block, unless a metric couples all.
int RotationCalibration::NumSlices() const {
  const std::vector<Stage>& stages = starts_[0].stages;
  const bool coupled =
      stages.size() != 1 || stages[0].stride != 1 ||
      std::ranges::any_of(plans_, [](const LossPlan& p) { return p.objective != Objective::kMse; });
  return coupled ? 1 : heads_[0]->head_dim() / std::lcm(heads_[0]->codec().block, 4);
}

std::unique_ptr<RotationLoss> RotationCalibration::MakeLoss(const Run& run, const StageShape& shape,
                                                            int first_channel) const {
  std::vector<std::unique_ptr<RotationLoss>> losses;
  for (std::size_t h = 0; h < heads_.size(); ++h)
    losses.push_back(heads_[h]->MakeLoss(plans_[run.plan], shape, first_channel, starts_[run.start].signs,
                                         run.rounding.empty() ? HeadTable() : run.rounding[h]));
  if (losses.size() == 1) return std::move(losses[0]);
  return std::make_unique<SharedLoss>(std::move(losses));
}

void RotationCalibration::FitPart(int part) {
  const std::size_t first = part_runs_[static_cast<std::size_t>(part)];
  const int slice = part % num_slices_;
  Run& run = runs_[first];
  const LossPlan& plan = plans_[run.plan];
  const auto metric_exact = [](const LossPlan& p) {
    return p.loss == LossKind::kExact && p.objective != Objective::kMse;
  };
  const std::vector<Stage>& start = starts_[run.start].stages;
  if (metric_exact(plan)) run.rounding = Tables(starts_[run.start].signs, start, Chosen::kFitted, true);
  FitSlice(run, slice, start);
  if (first + 1 == runs_.size() || !plans_[runs_[first + 1].plan].polish) return;
  Run& polish = runs_[first + 1];
  if (metric_exact(plans_[polish.plan]))
    polish.rounding = Tables(starts_[run.start].signs, JoinSlices(run), Chosen::kFitted, true);
  FitSlice(polish, slice, run.fits[static_cast<std::size_t>(slice)].stages);
}

// start: blocks of the whole head, or of the slice alone.
void RotationCalibration::FitSlice(Run& run, int slice, const std::vector<Stage>& start) {
  const int channels = heads_[0]->head_dim() / num_slices_;
  StageShape shape{.channels = channels, .strides = {}};
  std::vector<Stage> blocks = start;
  for (Stage& s : blocks) {
    shape.strides.push_back(s.stride);
    if (static_cast<int>(s.blocks.size()) == channels / 4) continue;
    const auto first = s.blocks.begin() + slice * channels / 4;
    s.blocks = std::vector<So4>(first, first + channels / 4);
  }
  const auto loss = MakeLoss(run, shape, slice * channels);
  // Half as many steps: what polishing gains comes early, and each step is dearer.
  const int iterations = plans_[run.plan].polish ? (max_iterations_ + 1) / 2 : max_iterations_;
  run.fits[static_cast<std::size_t>(slice)] = FitStages(*loss, side_.rotation, blocks, iterations);
}

std::vector<Stage> RotationCalibration::JoinSlices(const Run& run) const {
  std::vector<Stage> stages = run.fits[0].stages;
  for (std::size_t slice = 1; slice < run.fits.size(); ++slice)
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::vector<So4>& blocks = run.fits[slice].stages[s].blocks;
      stages[s].blocks.insert(stages[s].blocks.end(), blocks.begin(), blocks.end());
    }
  return stages;
}

std::vector<HeadTable> RotationCalibration::Tables(const std::vector<std::int8_t>& signs,
                                                   const std::vector<Stage>& stages, Chosen chosen,
                                                   bool with_rounding) const {
  std::vector<HeadTable> tables;
  for (const auto& head : heads_) {
    tables.push_back(head->WithStages(signs, stages, chosen));
    if (with_rounding) tables.back() = head->WithRounding(tables.back());
  }
  return tables;
}

std::vector<double> RotationCalibration::Scores(const std::vector<HeadTable>& tables,
                                                Objective objective) const {
  std::vector<double> scores;
  for (std::size_t h = 0; h < heads_.size(); ++h) scores.push_back(heads_[h]->Score(tables[h], objective));
  return scores;
}

double RotationCalibration::Pooled(const std::vector<double>& scores) {
  if (scores.size() == 1) return scores[0];
  std::vector<double>
      usable;  // a head without energy on validation tokens has no score, a perfect one no logarithm
  for (const double score : scores)
    if (score > 0) usable.push_back(score);
  return GeometricMean(usable);
}

RotationCalibration::Candidate RotationCalibration::CandidateOf(const Run& run) const {
  Candidate c;
  c.start = run.start;
  c.outcome.loss = plans_[run.plan].loss;
  c.outcome.objective = plans_[run.plan].objective;
  for (const StagesFit& fit : run.fits) {
    c.outcome.iterations += fit.iterations;
    if (!fit.converged) c.outcome.converged = 0;
  }
  c.tables = Tables(starts_[run.start].signs, JoinSlices(run), Chosen::kFitted, true);
  return c;
}

// Among the runs, each judged by the last plan's objective, and then among points on the way to it.
RotationCalibration::Candidate RotationCalibration::BestFitted() const {
  const Objective objective = plans_.back().objective;
  if (!heads_[0]->has_validation()) {
    Candidate last = CandidateOf(runs_[plans_.size() - 1]);
    last.scores = Scores(last.tables, objective);
    return last;
  }
  Candidate best;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Candidate c = CandidateOf(runs_[i]);
    c.scores = Scores(c.tables, objective);
    if (i == 0 || IsBetter(Pooled(c.scores), Pooled(best.scores))) best = std::move(c);
  }
  ShrinkIfBetter(best);
  return best;
}

void RotationCalibration::ShrinkIfBetter(Candidate& best) const {
  best.scores = Scores(best.tables, best.outcome.objective);
  const std::vector<Stage> fitted = best.tables[0].transform.stages;
  for (const double share : kShrinkShares) {
    std::vector<HeadTable> shrunk = best.tables;
    for (HeadTable& table : shrunk)
      table.transform.stages = Shrink(starts_[best.start].stages, fitted, share);
    std::vector<double> scores = Scores(shrunk, best.outcome.objective);
    if (!IsBetter(Pooled(scores), Pooled(best.scores))) continue;
    best.scores = std::move(scores);
    best.outcome.shrink = static_cast<float>(share);
    best.tables = std::move(shrunk);
  }
}

// The table with another map and the same rounding.
std::vector<HeadTable> RotationCalibration::WithMap(std::vector<HeadTable> tables, Chosen chosen) const {
  for (std::size_t h = 0; h < tables.size(); ++h) {
    tables[h].transform = heads_[h]->WithStages({}, starts_[0].stages, chosen).transform;
    tables[h].chosen = chosen;
  }
  return tables;
}

std::vector<RotationCalibration::Result> RotationCalibration::Finish() {
  const bool start_is_identity = !side_.ResolvedHadamard() && side_.rotation != Family::kButterfly;
  const Chosen start_choice = start_is_identity ? Chosen::kIdentity : Chosen::kHadamard;
  Candidate best;
  if (runs_.empty()) {
    best.outcome.objective = plans_.back().objective;
    best.tables = Tables({}, {}, start_choice, true);
    best.scores = Scores(best.tables, best.outcome.objective);
  } else {
    best = BestFitted();
  }
  const std::vector<HeadTable> fitted = best.tables;
  const std::vector<double> nan(heads_.size(), std::numeric_limits<double>::quiet_NaN());
  const std::vector<double> of_fitted = runs_.empty() ? nan : best.scores;
  // Plain Hadamard and identity, stored with the same rounding; a choice of theirs picks its own.
  const auto consider = [&](Chosen chosen) {
    const std::vector<double> scores = Scores(WithMap(fitted, chosen), best.outcome.objective);
    if (!(Pooled(scores) <= Pooled(best.scores))) return scores;  // without validation tokens: the fit
    best.tables = Tables({}, starts_[0].stages, chosen, true);
    best.scores = scores;
    best.outcome.shrink = 0;
    return scores;
  };
  std::vector<double> of_hadamard = nan;
  if (!start_is_identity) of_hadamard = runs_.empty() ? best.scores : consider(Chosen::kHadamard);
  const std::vector<double> of_identity =
      start_is_identity && runs_.empty() ? best.scores : consider(Chosen::kIdentity);

  std::vector<Result> results;
  for (std::size_t h = 0; h < heads_.size(); ++h) {
    results.push_back({std::move(best.tables[h]), best.outcome});
    results[h].restarted = starts_[best.start].restart && results[h].table.chosen == Chosen::kFitted;
    HeadErrors& errors = results[h].outcome.errors;
    errors = heads_[h]->MeasureErrors(results[h].table, fitted[h]);
    errors.decision_identity = of_identity[h];
    errors.decision_hadamard = of_hadamard[h];
    errors.decision_fitted = of_fitted[h];
    if (best.outcome.objective == Objective::kOutput) RoundValuesIfWorth(h, fitted[h], results[h]);
  }
  return results;
}

// Feedback rounding of a value head that was fitted for the output, with whichever map is best under it,
// where it pays.
void RotationCalibration::RoundValuesIfWorth(std::size_t h, const HeadTable& fitted, Result& result) const {
  const std::optional<HeadTable> feedback = heads_[h]->WithValueFeedback(fitted);
  if (!feedback) return;
  HeadErrors& errors = result.outcome.errors;
  HeadTable best = result.table;
  double best_score = kFeedbackPays * heads_[h]->Score(best, Objective::kOutput);
  // The same heads as before compete: what was not measured is no choice here.
  const auto consider = [&](Chosen chosen, double before) {
    if (std::isnan(before)) return before;
    HeadTable table = *feedback;
    table.chosen = chosen;
    if (chosen != Chosen::kFitted)
      table.transform = heads_[h]->WithStages({}, starts_[0].stages, chosen).transform;
    const double score = heads_[h]->Score(table, Objective::kOutput);
    if (score < best_score) {
      best_score = score;
      best = std::move(table);
    }
    return score;
  };
  HeadErrors under_feedback;
  under_feedback.decision_fitted = consider(Chosen::kFitted, errors.decision_fitted);
  under_feedback.decision_hadamard = consider(Chosen::kHadamard, errors.decision_hadamard);
  under_feedback.decision_identity = consider(Chosen::kIdentity, errors.decision_identity);
  if (best.rounding == Rounding::kNearest) return;
  if (best.chosen != Chosen::kFitted) result.outcome.shrink = 0;
  result.table = best;
  errors = heads_[h]->MeasureErrors(best, *feedback);
  errors.decision_fitted = under_feedback.decision_fitted;
  errors.decision_hadamard = under_feedback.decision_hadamard;
  errors.decision_identity = under_feedback.decision_identity;
}

}  // namespace so4cal
