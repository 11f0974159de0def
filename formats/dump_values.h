// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lib/activations.h"

namespace so4cal {

// Throws Error when tokens [first_token, first_token + num_tokens) of any head hold a NaN or an infinity:
// where the first is (token counted from first_token, head, channel) and how many there are.
void CheckFinite(const Activations& activations, std::size_t first_token, std::size_t num_tokens,
                 const std::string& where);
// The same for numbers without such axes; the first one by its index in file order.
void CheckFinite(std::span<const float> values, const std::string& where);

// Heads in which every token has the same vector, zero or not: there is nothing to fit.
std::vector<int> FindConstantHeads(const Activations& activations);
// "all zero", or "the same vector at every token".
std::string DescribeConstantHead(const Activations& activations, int head);

}  // namespace so4cal
