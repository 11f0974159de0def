// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "calib/fit_head.h"
#include "calib/fit_options.h"
#include "lib/activations.h"
#include "lib/rotation_table.h"

namespace so4cal {

// The map that a fit of this family starts from: no offset.
HeadTransform StartTransform(const SideOptions& side, int head_dim);

// One head from activations to a row of the table, in three steps so that a scheduler can spread them:
// construct, FitPart for every part (in any order, in parallel), Finish.
class HeadCalibration {
 public:
  // `head`: all tokens, kept by reference. `split`: token ranges over all files.
  HeadCalibration(const HeadView& head, const TokenSplit& split, const SideOptions& side, int max_iterations);

  // Independent problems: one per loss to try, times one per quantization block where nothing couples them.
  int num_parts() const { return static_cast<int>(losses_.size()) * num_slices_; }
  void FitPart(int part);

  struct Result {
    HeadTable table;
    HeadOutcome outcome;
  };
  // Chooses on validation tokens between the fits, the start without a fit, and identity, and measures the
  // choice on test tokens. Without validation tokens the first fit is used.
  Result Finish();

 private:
  struct Candidate {
    HeadTable table;
    HeadOutcome outcome;
    double error = 0;  // validation NMSE
  };
  Candidate FittedCandidate(std::size_t loss) const;
  Candidate BestFitted() const;
  HeadTransform TransformWith(
      std::vector<Stage> stages) const;  // the side's Hadamard flag, the head's offset
  double ValidationError(const HeadTable& table) const;

  HeadView head_;
  const TokenSplit& split_;
  const SideOptions& side_;
  int max_iterations_;
  CodecSpec codec_;
  std::vector<LossKind> losses_;  // to try
  std::vector<Stage> start_;
  std::vector<float> offset_;      // empty without one
  std::vector<float> start_rows_;  // fit tokens after offset and Hadamard transform, [token][channel]
  std::vector<float> validation_rows_;
  int slice_channels_ = 0;  // channels of one independent problem
  int num_slices_ = 1;
  std::vector<StagesFit> fits_;  // [loss][slice]
};

}  // namespace so4cal
