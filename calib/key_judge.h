// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "calib/attention_metrics.h"
#include "calib/layer_attention.h"
#include "lib/head_table.h"

namespace so4cal {

// Judges ways to store the keys of one KV head by what the queries of given tokens see of them.
class KeyJudge {
 public:
  // keys: all tokens. `tokens`: those whose queries count; they see every earlier key of their sequence.
  // layer, keys and tokens are kept by reference.
  KeyJudge(const LayerAttention& layer, const HeadView& keys, int kv_head, int num_kv_heads,
           const CodecSpec& codec, std::span<const TokenRange> tokens);

  // False when no query row belongs to `tokens`: nothing can be judged then.
  bool has_queries() const { return has_queries_; }

  // Attention KL and shift-free logit error with keys stored as each of `tables` has it.
  std::vector<AttentionErrors> Measure(std::span<const HeadTable> tables) const;

 private:
  AttentionHead head_;
  CodecSpec codec_;
  std::vector<TokenRange> seen_;  // keys that some counted query can see: only they are encoded
  bool has_queries_ = false;
};

}  // namespace so4cal
