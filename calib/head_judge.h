// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "calib/fit_options.h"
#include "calib/key_judge.h"
#include "calib/moments.h"
#include "lib/rotation_table.h"

namespace so4cal {

// Scores ways to store one head on its validation tokens, lower is better, and picks the rounding by them.
class HeadJudge {
 public:
  // rows: [token][channel], raw frame. metric: may be empty. keys: absent for values and without queries.
  HeadJudge(const CodecSpec& codec, const std::vector<float>& rows, const Metric& metric,
            std::optional<KeyJudge> keys);

  bool empty() const { return rows_.empty(); }  // no validation tokens: every score is NaN

  // The error in the metric of the objective: NMSE; for logit the shift-free logit NMSE of validation
  // queries, or e^T M e over the energy when there is no query to ask; for output e^T M e over the energy.
  double Score(const HeadTable& table, Objective objective) const;

  // `table` with the rounding rule of the side's options filled in. Damping and rounds that the options leave
  // open are chosen by attention KL, or are .1 and 2 where it can't be had.
  HeadTable WithRounding(HeadTable table, Rounding rule, const SideOptions& side) const;

  // Feedback rounding under the metric, at the damping (unless the options give one) with the least output
  // error.
  HeadTable WithValueFeedback(const HeadTable& table, const SideOptions& side) const;

 private:
  double AttentionKl(const HeadTable& table) const;

  CodecSpec codec_;
  const std::vector<float>& rows_;
  const Metric& metric_;
  std::optional<KeyJudge> keys_;
};

}  // namespace so4cal
