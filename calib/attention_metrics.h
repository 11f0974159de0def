// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/activations.h"
#include "lib/rotation_table.h"

namespace so4cal {

// One KV head as attention sees it: exact keys and values of all tokens, and the queries of its group of
// query heads. Token indices are those over all files. Everything is kept by reference.
struct AttentionHead {
  HeadView keys;
  HeadView values;                                 // without data: no output errors
  std::vector<HeadView> queries;                   // one per query head, row r belongs to token positions[r]
  std::span<const std::uint64_t> positions;        // ascending
  std::span<const std::uint64_t> sequence_starts;  // ascending, first is 0; a query sees only its sequence
  double softmax_scale = 1;
  std::optional<std::int64_t> sliding_window;  // W: the query of token t sees t-W < s <= t
  std::uint64_t skip_tokens = 0;       // at the start of each sequence: their keys and values stay exact
  std::span<const TokenRange> tokens;  // ascending; queries of other tokens don't count
  // W^T W of the group's columns W of the output projection: row-major, (query heads * value channels)^2.
  // Empty: no error after W_O.
  std::span<const double> output_gram;
};

// What the cache returns, [token][channel] over all tokens; empty: exact.
struct StoredHead {
  std::span<const float> keys, values;
};

// Sums over query rows and query heads, mergeable. calib/MATH.md section 6.
struct AttentionErrors {
  std::size_t num_rows = 0;  // query rows times query heads
  // Shift-free, queries and keys both of `tokens`, before softmax_scale^2: over s <= t,
  // sum of (delta_ts - mean_s delta_ts)^2, and the same of the exact logits.
  double logit_error = 0, logit_energy = 0;
  double kl = 0;              // sum of KL(exact || stored) of attention over all keys that a row sees, nats
  std::size_t top1_same = 0;  // rows whose largest logit is at the same key
  struct Output {             // squared errors of the output: keys and values stored, only one of them
    double both = 0, keys = 0, values = 0, energy = 0;
  };
  Output head;    // of every query head, before W_O
  Output output;  // of the group's contribution after W_O, cross terms of its query heads included

  void Merge(const AttentionErrors& other);
  double logit_nmse() const { return logit_error / logit_energy; }
  double attention_kl() const { return kl / static_cast<double>(num_rows); }
  double attention_top1() const { return static_cast<double>(top1_same) / static_cast<double>(num_rows); }
};

// Errors of every stored variant of the head, [variant][run]: the query rows that count, in order, are cut
// into num_runs contiguous runs of equal length (to one row). Products in f32, softmax and sums in double;
// memory: the errors of every variant once, and a few dozen query rows times all tokens.
// Single-threaded, deterministic.
std::vector<std::vector<AttentionErrors>> MeasureAttention(const AttentionHead& head,
                                                           std::span<const StoredHead> variants,
                                                           std::size_t num_runs = 1);

// output_gram for the columns [first, first + count) of W_O, row-major with `cols` columns.
std::vector<double> OutputGram(std::span<const float> w_o, std::size_t cols, std::size_t first,
                               std::size_t count);

}  // namespace so4cal
