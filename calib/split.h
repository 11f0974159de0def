// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/activations.h"
#include "lib/rotation_table.h"

namespace so4cal {

struct SplitOptions {
  // Per cent of the kept tokens of each file, in this order: fit, validation, test. Sum 100, fit > 0.
  // Validation 0: no guard and no choices. Test 0: nothing is left to report on.
  int fit_percent = 70;
  int validation_percent = 15;
  int test_percent = 15;
  // Tokens dropped at the start of every sequence (attention sinks).
  std::uint64_t skip_tokens = 4;
  // At most this many tokens are fitted on, in evenly spaced runs; 0 means all of the fit part.
  std::uint64_t fit_tokens = 0;

  void Check() const;  // throws UsageError
};

struct FileTokens {
  std::uint64_t num_tokens = 0;
  std::vector<std::uint64_t> sequence_starts;  // ascending, first is 0
};

// calib/MATH.md section 6: sinks are dropped, what is left is concatenated per file and cut at
// fit n/100 and (fit+validation) n/100 by integer division. One TokenSplit per file, in token indices of
// that file. Throws Error when a part that was asked for is empty.
std::vector<TokenSplit> SplitTokens(std::span<const FileTokens> files, const SplitOptions& options);

std::uint64_t NumTokens(std::span<const TokenRange> ranges);

// Moves the ranges of every file to indices over all files (files concatenated in order).
std::vector<TokenRange> GlobalRanges(std::span<const std::vector<TokenRange>> per_file,
                                     std::span<const std::uint64_t> tokens_per_file);

// The rows of `head` in `ranges`, concatenated: [NumTokens(ranges)][channels].
std::vector<float> GatherRows(const HeadView& head, std::span<const TokenRange> ranges);

}  // namespace so4cal
