// SPDX-License-Identifier: Apache-2.0
#include <numbers>

#include "lib/transform.h"

namespace so4cal {
namespace {

constexpr double kHalfRoot = 1 / std::numbers::sqrt2;  // 1 / sqrt(2)

// The 4 x 4 Hadamard matrix as a pair of quaternions. Already canonical.
constexpr So4 kHadamard4 = {{0, 0, kHalfRoot, -kHalfRoot}, {0, kHalfRoot, 0, -kHalfRoot}};
// H_2 (x) I_2, the first factor on the high bit of the index.
constexpr So4 kHadamard2OnHighBit = {{0, 1, 0, 0}, {0, kHalfRoot, 0, kHalfRoot}};

}  // namespace

std::vector<int> ButterflyStrides(int head_dim) {
  const int p = PowerOfTwoPart(head_dim);
  std::vector<int> strides;
  int stride = 1;
  for (; 4 * stride <= p; stride *= 4) strides.push_back(stride);
  if (stride < p) strides.push_back(p / 4);
  return strides;
}

std::vector<Stage> HadamardStages(int head_dim) {
  const int p = PowerOfTwoPart(head_dim);
  std::vector<Stage> stages;
  int done = 1;  // H of this size is complete
  for (const int stride : ButterflyStrides(head_dim)) {
    const So4& block = done == stride ? kHadamard4 : kHadamard2OnHighBit;
    stages.push_back({stride, std::vector<So4>(static_cast<std::size_t>(head_dim) / 4, block)});
    done = done == stride ? 4 * stride : p;
  }
  return stages;
}

std::vector<Stage> IdentityStages(int head_dim, std::span<const int> strides) {
  std::vector<Stage> stages;
  for (const int stride : strides)
    stages.push_back({stride, std::vector<So4>(static_cast<std::size_t>(head_dim) / 4)});
  return stages;
}

}  // namespace so4cal
