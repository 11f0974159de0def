// SPDX-License-Identifier: Apache-2.0
#include "calib/key_judge.h"

#include <algorithm>

#include "calib/metrics.h"

namespace so4cal {
namespace {

// From the start of each sequence that has a counted token to the last one counted.
std::vector<TokenRange> SeenKeys(std::span<const std::uint64_t> starts, std::uint64_t num_tokens,
                                 std::span<const TokenRange> tokens) {
  std::vector<TokenRange> seen;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::uint64_t end = i + 1 < starts.size() ? starts[i + 1] : num_tokens;
    std::uint64_t last = starts[i];
    for (const TokenRange& r : tokens)
      if (r.begin < end && r.end > starts[i]) last = std::max(last, std::min(r.end, end));
    if (last > starts[i]) seen.push_back({starts[i], last});
  }
  return seen;
}

}  // namespace

KeyJudge::KeyJudge(const LayerAttention& layer, const HeadView& keys, int kv_head, int num_kv_heads,
                   const CodecSpec& codec, std::span<const TokenRange> tokens)
    : codec_(codec), seen_(SeenKeys(layer.sequence_starts, keys.num_tokens, tokens)) {
  head_.keys = keys;
  for (int j = 0; j < layer.queries.num_heads; ++j)
    if (KvHeadOf(j, layer.queries.num_heads, num_kv_heads) == kv_head)
      head_.queries.push_back(layer.queries.head(j));
  head_.positions = layer.positions;
  head_.sequence_starts = layer.sequence_starts;
  head_.softmax_scale = layer.softmax_scale;
  head_.sliding_window = layer.sliding_window;
  head_.skip_tokens = layer.skip_tokens;
  head_.tokens = tokens;
  const auto counted = [&](std::uint64_t position) {
    return std::ranges::any_of(tokens,
                               [&](const TokenRange& r) { return r.begin <= position && position < r.end; });
  };
  has_queries_ =
      layer.plain_softmax && !head_.queries.empty() && std::ranges::any_of(layer.positions, counted);
}

std::vector<AttentionErrors> KeyJudge::Measure(std::span<const HeadTable> tables) const {
  std::vector<AttentionErrors> errors;
  for (const HeadTable& table : tables) {  // one at a time: a stored head is as large as the head
    const std::vector<float> stored = StoreRanges(codec_, table, head_.keys, seen_);
    const StoredHead variant{.keys = stored, .values = {}};
    errors.push_back(MeasureAttention(head_, {&variant, 1})[0][0]);
  }
  return errors;
}

}  // namespace so4cal
