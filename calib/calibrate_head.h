// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "calib/fit_head.h"
#include "calib/fit_options.h"
#include "calib/head_judge.h"
#include "calib/layer_attention.h"
#include "lib/activations.h"
#include "lib/rotation_table.h"

namespace so4cal {

// The map that a fit of this family starts from: no offset.
HeadTransform StartTransform(const SideOptions& side, int head_dim);

// What is calibrated: one head of one side. Everything is kept by reference.
struct HeadInput {
  Side side = Side::kKey;
  HeadView head;  // all tokens
  int kv_head = 0, num_kv_heads = 1;
  const LayerAttention* attention = nullptr;  // may be absent
};

// One head from activations to a row of the table, in three steps so that a scheduler can spread them:
// construct, FitPart for every part (in any order, in parallel), Finish.
class HeadCalibration {
 public:
  // `split`: token ranges over all files. Throws Error for options that need what the dump lacks.
  HeadCalibration(const HeadInput& input, const TokenSplit& split, const SideOptions& side,
                  int max_iterations);

  // Independent problems: one per loss to try, times one per quantization block where nothing couples them.
  int num_parts() const { return static_cast<int>(fits_.size()); }
  void FitPart(int part);

  struct Result {
    HeadTable table;
    HeadOutcome outcome;
  };
  // Chooses on validation tokens between the fits, the start without a fit, and identity, and measures the
  // choice on test tokens. Without validation tokens the fit is used, with --loss auto the polished one.
  Result Finish();

 private:
  // One loss to minimize, over `num_slices` independent parts.
  struct Plan {
    Objective objective;
    LossKind loss;
    int num_slices, first_part;
    bool polish;  // starts where the plan before it ends, part by part
  };
  struct Candidate {
    HeadTable table;
    HeadOutcome outcome;
    double score = 0;  // of the judge
  };
  void AddPlan(Objective objective, LossKind loss, bool polish);
  std::size_t PlanOf(int part) const;  // index
  void FitSlice(std::size_t plan, int slice);
  std::unique_ptr<RotationLoss> MakeLoss(const Plan& plan, const StageShape& shape, int first_channel) const;
  HeadTable WithStages(std::vector<Stage> stages, Chosen chosen) const;
  Candidate FittedCandidate(const Plan& plan) const;
  Candidate BestFitted() const;
  HeadErrors MeasureErrors(const HeadTable& chosen, const HeadTable& fitted) const;

  HeadView head_;
  const SideOptions& side_;
  int max_iterations_;
  CodecSpec codec_;
  Rounding rounding_;  // resolved
  std::vector<Stage> start_;
  std::vector<float> offset_;      // empty without one
  std::vector<float> start_rows_;  // fit tokens after offset and Hadamard transform, [token][channel]
  std::vector<float> validation_rows_, test_rows_;
  Metric metric_;  // empty when the dump has none for this side
  std::optional<HeadJudge> judge_;
  std::vector<Plan> plans_;
  std::vector<StagesFit> fits_;  // one per part
};

}  // namespace so4cal
