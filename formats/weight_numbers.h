// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/file_access.h"
#include "formats/value_weights.h"

namespace so4cal {

// What rounding to the file's type changed.
struct RoundingChange {
  double max_abs = 0;
  double squares = 0, weight_squares = 0;  // sums over all numbers, of the change and of the number
  void Add(const RoundingChange& other);
};

// Numbers [first, first + count) of a weight in the order of its rows. Throws Error when one is NaN or
// infinite.
std::vector<double> LoadNumbers(const FileAccess& file, const WeightTensor& weight, std::uint64_t first,
                                std::uint64_t count);

// Writes them in the weight's own type, rounded once, to nearest even. Throws Error when one is too large for
// it.
RoundingChange StoreNumbers(const FileAccess& file, const WeightTensor& weight, std::uint64_t first,
                            std::span<const double> numbers);

}  // namespace so4cal
