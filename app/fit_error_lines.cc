// SPDX-License-Identifier: Apache-2.0
#include "app/fit_error_lines.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "calib/metrics.h"

namespace so4cal {
namespace {

const char* MetricName(Objective objective) {
  switch (objective) {
    case Objective::kLogit:
      return "logit NMSE";
    case Objective::kOutput:
      return "output NMSE";
    case Objective::kMse:
      break;
  }
  return "NMSE";
}

double DecisionOfChosen(const HeadErrors& errors, Chosen chosen) {
  switch (chosen) {
    case Chosen::kIdentity:
      return errors.decision_identity;
    case Chosen::kHadamard:
      return errors.decision_hadamard;
    case Chosen::kFitted:
      return errors.decision_fitted;
    case Chosen::kDense:
      break;
  }
  return HeadErrors::kNotMeasured;
}

bool IsRatio(double ratio) { return std::isfinite(ratio) && ratio > 0; }

// Ratios to Hadamard of the heads that were judged by one metric.
struct Ratios {
  std::vector<double> values;
  double worst = 0;
  std::string worst_head;

  void Add(double ratio, int layer, std::size_t head) {
    if (!IsRatio(ratio)) return;
    values.push_back(ratio);
    if (ratio <= worst) return;
    worst = ratio;
    worst_head = fmt::format("layer {} head {}", layer, head);
  }
};

std::string TestLine(const RotationTable& table) {
  std::vector<double> ratios[2];
  for (const LayerTable& layer : table.layers)
    for (const Side side : kSides)
      for (const HeadOutcome& outcome : layer.side(side).outcomes)
        if (const double ratio = outcome.errors.test_chosen / outcome.errors.test_hadamard; IsRatio(ratio))
          ratios[static_cast<std::size_t>(side)].push_back(ratio);
  if (ratios[0].empty() && ratios[1].empty()) return "test NMSE    not measured: no test tokens\n";
  return fmt::format(
      "test NMSE    k {:.3f}, v {:.3f} times that of Hadamard with the same offset (geometric mean over {} + "
      "{} heads)\n",
      GeometricMean(ratios[0]), GeometricMean(ratios[1]), ratios[0].size(), ratios[1].size());
}

std::string DecisionLines(const RotationTable& table) {
  std::map<Objective, Ratios> by_metric[2];
  std::size_t worse = 0, not_compared = 0;
  for (const LayerTable& layer : table.layers)
    for (const Side which : kSides) {
      const SideTable& side = layer.side(which);
      for (std::size_t h = 0; h < side.heads.size(); ++h) {
        const HeadErrors& errors = side.outcomes[h].errors;
        const double ratio = DecisionOfChosen(errors, side.heads[h].chosen) / errors.decision_hadamard;
        by_metric[static_cast<std::size_t>(which)][side.outcomes[h].objective].Add(ratio, layer.layer, h);
        worse += ratio > 1;
        not_compared += std::isnan(ratio);
      }
    }
  std::string text;
  for (const Side side : kSides)
    for (const auto& [objective, ratios] : by_metric[static_cast<std::size_t>(side)]) {
      if (ratios.values.empty()) continue;
      text +=
          fmt::format("{:<13}{}: {} {:.3f} times Hadamard's over {} heads, worst {:.3f} ({})\n",
                      text.empty() ? "validation" : "", SideName(side), MetricName(objective),
                      GeometricMean(ratios.values), ratios.values.size(), ratios.worst, ratios.worst_head);
    }
  if (text.empty()) return text;
  text += fmt::format("{:<13}{}", "guard",
                      worse == 0 ? "no head is worse than Hadamard in its metric on validation tokens"
                                 : fmt::format("{} heads are worse than Hadamard in their metric on "
                                               "validation tokens",
                                               worse));
  if (not_compared > 0) text += fmt::format("; {} heads have nothing to compare", not_compared);
  return text + '\n';
}

// NMSE says little about heads that were fitted for something else.
std::string WeightedLine(const RotationTable& table) {
  for (const LayerTable& layer : table.layers)
    for (const SideTable& side : layer.sides)
      for (const HeadOutcome& outcome : side.outcomes)
        if (outcome.objective != Objective::kMse)
          return "             heads fitted for logit or output are judged by those errors: see 'so4cal "
                 "report'\n";
  return "";
}

}  // namespace

std::string FitErrorLines(const RotationTable& table) {
  return DecisionLines(table) + TestLine(table) + WeightedLine(table);  // first what the fit was for
}

}  // namespace so4cal
