// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "lib/activations.h"

namespace so4cal {

// Bits per code and channels per fp16 scale.
struct BitChoice {
  int bits = 3, block = 32;
  double bits_per_value() const { return bits + 16.0 / block; }  // as stored
  bool operator==(const BitChoice&) const = default;
};

// Per layer the choice of keys and of values, indexed by Side.
using BitPlan = std::map<int, std::array<std::optional<BitChoice>, 2>>;

// What one side of one layer may be stored in, and what each costs in error.
struct PlanItem {
  int layer = 0;
  Side side = Side::kKey;
  std::uint64_t values_per_token = 0;  // heads times head_dim
  struct Choice {
    BitChoice codec;
    double error = 0;        // what the plan adds up
    double logit_error = 0;  // keys: squared error of the attention logits per query row; NaN when unknown
  };
  std::vector<Choice> choices;
};

// The index of one choice per item, with the least sum of errors at no more than `budget` stored bits per
// value over all items: along the lower convex hull of every item's choices the best gain per bit first, then
// whatever still fits. The optimum, up to the bits of one last step. Throws Error when the cheapest choices
// are over the budget.
std::vector<std::size_t> ChooseBits(std::span<const PlanItem> items, double budget);

// Of chosen[i] of item i: stored bits per value, and the sum of errors.
double AverageBits(std::span<const PlanItem> items, std::span<const std::size_t> chosen);
double TotalError(std::span<const PlanItem> items, std::span<const std::size_t> chosen);

}  // namespace so4cal
