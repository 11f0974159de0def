// SPDX-License-Identifier: Apache-2.0
#include "calib/head_problem.h"

#include <limits>
#include <optional>
#include <string>

#include "calib/exact_metric_loss.h"
#include "calib/metric_loss.h"
#include "calib/metrics.h"
#include "lib/error.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

// Damping of the metric inside the expected loss, where validation has not chosen one yet.
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
std::vector<Objective> ResolveObjectives(Side side, ObjectiveChoice choice, const Metric& metric,
                                         bool has_validation) {
  const Objective weighted = side == Side::kKey ? Objective::kLogit : Objective::kOutput;
  if (choice == ObjectiveChoice::kMse || (choice == ObjectiveChoice::kAuto && metric.empty()))
    return {Objective::kMse};
  if (metric.empty())
    throw Error("--objective " + std::string(NameOf(Objectives(), weighted)) + " needs " + NeededFor(side) +
                ", which this dump lacks: use --objective mse");
  if (choice != ObjectiveChoice::kAuto || side == Side::kKey) return {weighted};
  return has_validation ? std::vector{Objective::kMse, weighted} : std::vector{Objective::kMse};
}

}  // namespace

HeadTransform StartTransform(const SideOptions& side, int head_dim) {
  HeadTransform t;
  t.head_dim = head_dim;
  t.hadamard = side.ResolvedHadamard();
  t.stages = StartStages(side.rotation, head_dim);
  return t;
}

HeadProblem::HeadProblem(const HeadInput& input, const TokenSplit& split, const SideOptions& side)
    : head_(input.head),
      side_of_kv_(input.side),
      side_(side),
      codec_(side.Codec(input.head.channels)),
      start_rows_(GatherRows(input.head, split.fit)),
      validation_rows_(GatherRows(input.head, split.validation)),
      test_rows_(GatherRows(input.head, split.test)),
      metric_(MetricOf(input, split)) {
  rounding_ = ResolveRounding(input, side.rounding, metric_);
  judge_ = std::make_unique<HeadJudge>(codec_, validation_rows_, metric_, MakeKeyJudge(input, codec_, split));
  if (side.offset == OffsetRule::kMean) offset_ = ChannelMean(View(start_rows_, head_.channels));
  HeadCodec(codec_, WithStages({}, {}, Chosen::kHadamard)).Rotate(start_rows_);
  Plans();  // an objective that the dump can't serve is refused here
}

std::vector<LossPlan> HeadProblem::Plans() const {
  std::vector<LossPlan> plans;
  for (const Objective o : ResolveObjectives(side_of_kv_, side_.objective, metric_, has_validation())) {
    if (side_.loss != LossChoice::kExact) plans.push_back({o, LossKind::kExpected, false});
    // Under feedback the exact loss is too rough for a line search, which ends after a few steps. Under the
    // output's metric, which is nearly isotropic, it is the dearest loss of all and gains less than a
    // hundredth.
    const bool pays = o == Objective::kMse || (o == Objective::kLogit && rounding_ == Rounding::kNearest);
    if (side_.loss == LossChoice::kExact || (side_.loss == LossChoice::kAuto && pays))
      plans.push_back({o, LossKind::kExact, side_.loss == LossChoice::kAuto});
  }
  return plans;
}

// Fit tokens after offset, signs and Hadamard transform.
std::vector<float> HeadProblem::RowsBeforeStages(const std::vector<std::int8_t>& signs) const {
  std::vector<float> rows = start_rows_;
  if (signs.empty()) return rows;
  HeadCodec(codec_, WithStages({}, {}, Chosen::kHadamard)).Unrotate(rows);
  HeadCodec(codec_, WithStages(signs, {}, Chosen::kHadamard)).Rotate(rows);
  return rows;
}

std::unique_ptr<RotationLoss> HeadProblem::MakeLoss(const LossPlan& plan, const StageShape& shape,
                                                    int first_channel, const std::vector<std::int8_t>& signs,
                                                    const HeadTable& rounding) const {
  const auto d = static_cast<std::size_t>(head_.channels);
  std::vector<float> rows = RowsBeforeStages(signs);
  if (plan.objective == Objective::kMse)
    return std::make_unique<TokenLoss<float>>(shape, plan.loss, codec_, rows, d,
                                              static_cast<std::size_t>(first_channel));
  const HeadTransform before = WithStages(signs, {}, Chosen::kHadamard).transform;
  if (plan.loss == LossKind::kExact)
    return std::make_unique<ExactMetricLoss>(shape, codec_, std::move(rows), metric_, before, rounding);
  const Rounding form = rounding_ == Rounding::kNearest ? Rounding::kNearest : Rounding::kFeedback;
  return std::make_unique<MetricLoss>(shape, codec_, rows, metric_, before, form,
                                      side_.damping.value_or(kFitDamping));
}

HeadTable HeadProblem::WithStages(std::vector<std::int8_t> signs, std::vector<Stage> stages,
                                  Chosen chosen) const {
  HeadTable table;
  table.transform.head_dim = head_.channels;
  table.transform.hadamard = side_.ResolvedHadamard();
  table.transform.signs = std::move(signs);
  table.transform.stages = std::move(stages);
  table.transform.offset = offset_;
  table.chosen = chosen;
  return table;
}

HeadTable HeadProblem::WithRounding(const HeadTable& table) const {
  return judge_->WithRounding(table, rounding_, side_);
}

std::optional<HeadTable> HeadProblem::WithValueFeedback(const HeadTable& table) const {
  const bool open = side_of_kv_ == Side::kValue && side_.rounding == RoundingChoice::kAuto;
  if (!open || metric_.empty() || !has_validation()) return {};
  return judge_->WithValueFeedback(table, side_);
}

HeadErrors HeadProblem::MeasureErrors(const HeadTable& chosen, const HeadTable& fitted) const {
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
  errors.validation_fitted = side_.rotation == Family::kNone ? std::numeric_limits<double>::quiet_NaN()
                                                             : nmse(validation_rows_, fitted);
  errors.test_hadamard = nmse(test_rows_, hadamard);
  errors.test_chosen = nmse(test_rows_, chosen);
  return errors;
}

}  // namespace so4cal
