// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "calib/fit_head.h"
#include "calib/fit_options.h"
#include "calib/head_problem.h"
#include "lib/rotation_table.h"

namespace so4cal {

// One rotation from activations to the rows of the table that use it: those of one head, or with --share
// layer of all heads of a side. Three steps so that a scheduler can spread them: construct, FitPart for every
// part (in any order, in parallel), Finish.
class RotationCalibration {
 public:
  // heads: at least one, all of one side and size; what they refer to and `split` must outlive this. seed: of
  // sign patterns and restarts.
  RotationCalibration(std::span<const HeadInput> heads, const TokenSplit& split, const SideOptions& side,
                      int max_iterations, std::uint64_t seed);

  // Independent problems: one per start and loss to try, times one per quantization block where nothing
  // couples them.
  int num_parts() const { return static_cast<int>(part_runs_.size()); }
  void FitPart(int part);

  struct Result {
    HeadTable table;
    HeadOutcome outcome;
    bool restarted = false;  // the chosen fit began elsewhere than at the Hadamard transform or identity
  };
  // Per head, in order. Chooses on validation tokens between the fits, the start without a fit, and identity,
  // and measures the choice on test tokens. Without validation tokens the first start's last fit is used.
  std::vector<Result> Finish();

 private:
  // Where a fit begins: a sign pattern (empty: none), and the blocks.
  struct Start {
    std::vector<std::int8_t> signs;
    std::vector<Stage> stages;
    bool restart = false;
  };
  // One start and one loss, over slices_ independent slices.
  struct Run {
    std::size_t start, plan;
    std::vector<StagesFit> fits;      // per slice
    std::vector<HeadTable> rounding;  // per head: what an exact loss under a metric rounds by
  };
  struct Candidate {
    std::vector<HeadTable> tables;  // per head
    HeadOutcome outcome;            // of all heads
    std::vector<double> scores;     // per head, in the metric of outcome.objective
    std::size_t start = 0;
  };

  void AddStarts(int num_signs, int num_restarts, std::uint64_t seed);
  int NumSlices() const;
  void FitSlice(Run& run, int slice, const std::vector<Stage>& start);
  std::unique_ptr<RotationLoss> MakeLoss(const Run& run, const StageShape& shape, int first_channel) const;
  std::vector<Stage> JoinSlices(const Run& run) const;
  std::vector<HeadTable> Tables(const std::vector<std::int8_t>& signs, const std::vector<Stage>& stages,
                                Chosen chosen, bool with_rounding) const;
  Candidate CandidateOf(const Run& run) const;
  Candidate BestFitted() const;
  void ShrinkIfBetter(Candidate& best) const;
  std::vector<HeadTable> WithMap(std::vector<HeadTable> tables, Chosen chosen) const;
  void RoundValuesIfWorth(std::size_t h, const HeadTable& fitted, Result& result) const;
  // Per head, lower is better; and what is compared: of several heads the geometric mean.
  std::vector<double> Scores(const std::vector<HeadTable>& tables, Objective objective) const;
  static double Pooled(const std::vector<double>& scores);

  SideOptions side_;
  int max_iterations_;
  std::vector<std::unique_ptr<HeadProblem>> heads_;
  std::vector<LossPlan> plans_;
  int num_slices_ = 1;
  std::vector<Start> starts_;
  std::vector<Run> runs_;               // start by start, plan by plan
  std::vector<std::size_t> part_runs_;  // per part: its run; the slice is the part modulo num_slices_
};

}  // namespace so4cal
