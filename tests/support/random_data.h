// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "lib/transform.h"

namespace so4cal {

// n values of N(0, 1).
inline std::vector<float> Noise(std::size_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> gauss;
  std::vector<float> x(n);
  for (float& v : x) v = gauss(rng);
  return x;
}

inline std::vector<double> Widened(std::span<const float> x) { return {x.begin(), x.end()}; }

// Uniform on the rotations of R^4.
inline So4 RandomSo4(std::mt19937& rng) {
  std::normal_distribution<double> gauss;
  So4 r;
  for (Quat* q : {&r.left, &r.right}) {
    double norm = 0;
    for (double& c : *q) {
      c = gauss(rng);
      norm += c * c;
    }
    for (double& c : *q) c /= std::sqrt(norm);
  }
  return Canonical(r);
}

inline std::vector<Stage> RandomStages(int head_dim, std::span<const int> strides, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<Stage> stages = IdentityStages(head_dim, strides);
  for (Stage& stage : stages)
    for (So4& block : stage.blocks) block = RandomSo4(rng);
  return stages;
}

// Everything a transform may have: offset, signs, Hadamard and stages at the butterfly's strides.
inline HeadTransform RandomTransform(int head_dim, unsigned seed) {
  HeadTransform t;
  t.head_dim = head_dim;
  t.hadamard = true;
  t.stages = RandomStages(head_dim, ButterflyStrides(head_dim), seed);
  t.offset = Noise(static_cast<std::size_t>(head_dim), seed + 1);
  for (const float v : Noise(static_cast<std::size_t>(head_dim), seed + 2)) t.signs.push_back(v < 0 ? -1 : 1);
  return t;
}

// Head dimensions that models use: powers of two, and those with odd factors.
inline constexpr int kHeadDims[] = {8, 64, 80, 96, 112, 128, 192, 256};

}  // namespace so4cal
