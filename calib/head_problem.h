// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "calib/fit_options.h"
#include "calib/head_judge.h"
#include "calib/layer_attention.h"
#include "calib/loss.h"
#include "lib/activations.h"
#include "lib/rotation_table.h"

namespace so4cal {

// The map that a fit of this family starts from: no offset, no signs.
HeadTransform StartTransform(const SideOptions& side, int head_dim);

// What is calibrated: one head of one side. Everything is kept by reference.
struct HeadInput {
  Side side = Side::kKey;
  HeadView head;  // all tokens
  int kv_head = 0, num_kv_heads = 1;
  const LayerAttention* attention = nullptr;  // may be absent
};

// One loss that a fit may minimize.
struct LossPlan {
  Objective objective = Objective::kMse;
  LossKind loss = LossKind::kExpected;
  bool polish = false;  // starts at the optimum of the plan before it
};

// One head with its tokens and metric: the losses of a fit, and the scores of what came out.
class HeadProblem {
 public:
  // `split`: token ranges over all files. Throws Error for options that need what the dump lacks.
  // The input and the split are kept by reference.
  HeadProblem(const HeadInput& input, const TokenSplit& split, const SideOptions& side);
  HeadProblem(const HeadProblem&) = delete;  // the judge refers to members
  HeadProblem& operator=(const HeadProblem&) = delete;

  int head_dim() const { return head_.channels; }
  const CodecSpec& codec() const { return codec_; }
  bool has_validation() const { return !judge_->empty(); }

  // The losses to try, in the order of trying.
  std::vector<LossPlan> Plans() const;

  // The loss over channels [first_channel, first_channel + shape.channels). `rounding`: whose rounding an
  // exact loss under a metric has.
  std::unique_ptr<RotationLoss> MakeLoss(const LossPlan& plan, const StageShape& shape, int first_channel,
                                         const std::vector<std::int8_t>& signs,
                                         const HeadTable& rounding) const;

  // The head's offset and the side's Hadamard flag with these signs and stages, rounded to nearest.
  HeadTable WithStages(std::vector<std::int8_t> signs, std::vector<Stage> stages, Chosen chosen) const;
  // The same with the rounding rule of the side, its damping and rounds as validation prefers them.
  HeadTable WithRounding(const HeadTable& table) const;
  // Values whose rounding the options leave open: the table with feedback rounding under W_O, at the damping
  // that validation prefers. Nothing for keys, and where there is no w_o or no validation token.
  std::optional<HeadTable> WithValueFeedback(const HeadTable& table) const;

  // On validation tokens, lower is better: calib/head_judge.h. NaN without them.
  double Score(const HeadTable& table, Objective objective) const { return judge_->Score(table, objective); }
  // NMSE of what was chosen and of what it was chosen from.
  HeadErrors MeasureErrors(const HeadTable& chosen, const HeadTable& fitted) const;

 private:
  std::vector<float> RowsBeforeStages(const std::vector<std::int8_t>& signs) const;

  HeadView head_;
  Side side_of_kv_;
  SideOptions side_;
  CodecSpec codec_;
  Rounding rounding_ = Rounding::kNearest;  // resolved
  std::vector<float> offset_;               // empty without one
  std::vector<float> start_rows_;  // fit tokens after offset and Hadamard transform, [token][channel]
  std::vector<float> validation_rows_, test_rows_;
  Metric metric_;  // empty when the dump has none for this side
  std::unique_ptr<HeadJudge> judge_;
};

}  // namespace so4cal
