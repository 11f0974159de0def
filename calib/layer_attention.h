// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "calib/moments.h"
#include "lib/activations.h"

namespace so4cal {

// What a dump says about the attention of one layer, beside keys and values. Token indices over all files.
struct LayerAttention {
  Activations queries;                         // [Hq][rows][D]; no heads when the dump has none
  std::vector<std::uint64_t> positions;        // token of each row, ascending
  std::vector<std::uint64_t> sequence_starts;  // ascending, first is 0
  std::uint64_t skip_tokens = 0;               // sinks, at the start of each sequence
  double softmax_scale = 1;
  std::optional<std::int64_t> sliding_window;
  bool plain_softmax = true;          // no learned sinks, no soft cap: attention can be computed
  std::vector<Metric> query_moments;  // per KV head, instead of queries; usually empty
  std::vector<float> w_o;             // [w_o_rows][Hq * Dv] row-major; empty when the dump has none
  std::size_t w_o_rows = 0;
  int num_query_heads = 0;  // known from queries, or from w_o and Dv; else 0
};

}  // namespace so4cal
