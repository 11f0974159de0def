// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// The k-th of n parts of a fit's layers, from 1.
struct Shard {
  int index = 1, count = 1;
};

// "2/4", or "auto": what the variables of a Slurm array job say. Throws UsageError.
Shard ParseShard(std::string_view text);

// The shard's share of `layers`: neighbours, and as many as in every other shard or one more. Throws
// UsageError when there are more shards than layers.
std::vector<int> ShardLayers(std::span<const int> layers, const Shard& shard);

}  // namespace so4cal
