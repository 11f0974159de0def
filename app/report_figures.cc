// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "app/report.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Squared output error that the stored side causes.
double Caused(const AttentionErrors::Output& output, StoredSides stored) {
  return stored == StoredSides::kKeys     ? output.keys
         : stored == StoredSides::kValues ? output.values
                                          : output.both;
}

// Values don't touch the logits; attention that could not be computed has no rows.
bool HasAttention(const AttentionErrors& errors, StoredSides stored) {
  return stored != StoredSides::kValues && errors.num_rows > 0;
}

constexpr ErrorFigure kFigures[] = {
    {"nmse", [](const auto& e, const auto&, auto, auto) { return e.distortion.nmse(); }},
    {"nmse_centred",
     [](const auto& e, const auto&, auto, auto) {
       return e.distortion.centred_energy > 0 ? e.distortion.nmse_centred() : kNan;
     }},
    {"sqnr_db", [](const auto& e, const auto&, auto, auto) { return e.distortion.sqnr_db(); }},
    {"max_abs", [](const auto& e, const auto&, auto, auto) { return e.distortion.max_abs; }},
    {"blocks_improved",
     [](const auto& e, const auto&, auto, auto) { return e.blocks_improved.value_or(kNan); }},
    {"logit_nmse",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       return stored == StoredSides::kValues ? kNan : a.baselines[b].logit_nmse();
     }},
    {"logit_error",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       const AttentionErrors& errors = a.baselines[b];
       const bool measured = errors.logit_energy > 0 && !a.logits_from_moment;
       return stored == StoredSides::kValues || !measured ? kNan : errors.logit_error;
     }},
    {"attention_kl",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       return HasAttention(a.baselines[b], stored) ? a.baselines[b].attention_kl() : kNan;
     }},
    {"attention_top1",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       return HasAttention(a.baselines[b], stored) ? a.baselines[b].attention_top1() : kNan;
     }},
    {"output_nmse_head",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       return Caused(a.baselines[b].head, stored) / a.baselines[b].head.energy;
     }},
    {"output_nmse_wo",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       return Caused(a.baselines[b].output, stored) / a.baselines[b].output.energy;
     }},
    {"output_nmse_wo_keys",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       return (stored == StoredSides::kValues ? 0 : a.baselines[b].output.keys) /
              a.baselines[b].output.energy;
     }},
    {"output_nmse_wo_values",
     [](const auto&, const auto& a, std::size_t b, StoredSides stored) {
       return (stored == StoredSides::kKeys ? 0 : a.baselines[b].output.values) /
              a.baselines[b].output.energy;
     }},
};

}  // namespace

std::span<const ErrorFigure> ErrorFigures() { return kFigures; }

double FigureOf(std::string_view key, const BaselineErrors& errors, const AttentionReport& attention,
                Baseline baseline, StoredSides stored) {
  const auto b = static_cast<std::size_t>(baseline);
  for (const ErrorFigure& figure : kFigures)
    if (figure.key == key) return figure.value(errors[b], attention, b, stored);
  SO4CAL_CHECK(false);
}

std::string_view DecisionMetric(Objective objective) {
  switch (objective) {
    case Objective::kMse:
      return "nmse";
    case Objective::kLogit:
      return "logit_nmse";
    case Objective::kOutput:
      return "output_nmse_wo";
  }
  return "nmse";
}

std::string_view Verdict::name() const {
  return interval.high < 1 ? "helped" : interval.low > 1 ? "harmed" : "no difference";
}

}  // namespace so4cal
