// SPDX-License-Identifier: Apache-2.0
#include "calib/head_judge.h"

#include <limits>

#include "calib/metrics.h"

namespace so4cal {
namespace {

constexpr double kDampings[] = {0.01, 0.1, 1};
constexpr double kDefaultDamping = 0.1;
constexpr int kDefaultRounds = 2;

HeadTable WithSetting(const HeadTable& table, const Metric& metric, double damping, int rounds,
                      Rounding rule) {
  HeadTable out = table;
  out.rounding = rule;
  out.damping = static_cast<float>(damping);
  out.rounds = rule == Rounding::kRefined ? rounds : 0;
  out.metric.assign(metric.begin(), metric.end());
  return out;
}

}  // namespace

HeadJudge::HeadJudge(const CodecSpec& codec, const std::vector<float>& rows, const Metric& metric,
                     std::optional<KeyJudge> keys)
    : codec_(codec), rows_(rows), metric_(metric), keys_(std::move(keys)) {
  if (keys_ && !keys_->has_queries()) keys_.reset();
}

double HeadJudge::Score(const HeadTable& table, Objective objective) const {
  if (rows_.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (objective == Objective::kLogit && keys_) return keys_->Measure({&table, 1})[0].logit_nmse();
  const auto d = static_cast<std::size_t>(codec_.head_dim);
  const HeadView view{rows_.data(), rows_.size() / d, d, codec_.head_dim};
  if (objective == Objective::kMse) return MeasureDistortion(codec_, table, view, {}).nmse();
  const std::vector<float> zero(rows_.size(), 0.0f);
  return MetricError(metric_, view, RoundTrip(codec_, table, view)) / MetricError(metric_, view, zero);
}

double HeadJudge::AttentionKl(const HeadTable& table) const {
  return keys_->Measure({&table, 1})[0].attention_kl();
}

HeadTable HeadJudge::WithRounding(HeadTable table, Rounding rule, const SideOptions& side) const {
  if (rule == Rounding::kNearest) return table;
  const double damping = side.damping.value_or(kDefaultDamping);
  const int rounds = side.rounds.value_or(kDefaultRounds);
  HeadTable best = WithSetting(table, metric_, damping, rounds, rule);
  if (rows_.empty() || !keys_) return best;

  double best_kl = AttentionKl(best);
  const auto try_setting = [&](const HeadTable& setting) {
    const double kl = AttentionKl(setting);
    if (!(kl < best_kl)) return;
    best_kl = kl;
    best = setting;
  };
  if (!side.damping)
    for (const double d : kDampings)
      if (d != damping) try_setting(WithSetting(table, metric_, d, rounds, rule));
  const double chosen_damping = static_cast<double>(best.damping);
  if (!side.rounds && rule == Rounding::kRefined) {
    try_setting(WithSetting(table, metric_, chosen_damping, 1, rule));
    try_setting(WithSetting(table, metric_, chosen_damping, 0, Rounding::kFeedback));
  }
  if (side.rounding == RoundingChoice::kAuto) try_setting(table);  // nearest
  return best;
}

HeadTable HeadJudge::WithValueFeedback(const HeadTable& table, const SideOptions& side) const {
  const auto at = [&](double damping) {
    return WithSetting(table, metric_, damping, 0, Rounding::kFeedback);
  };
  if (side.damping) return at(*side.damping);
  HeadTable best = at(kDefaultDamping);
  double best_error = Score(best, Objective::kOutput);
  for (const double damping : kDampings) {
    const HeadTable setting = at(damping);
    const double error = damping == kDefaultDamping ? best_error : Score(setting, Objective::kOutput);
    if (!(error < best_error)) continue;
    best_error = error;
    best = setting;
  }
  return best;
}

}  // namespace so4cal
