// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/so4.h"

namespace so4cal {

// A stage of stride r: block i acts on channels c, c+r, c+2r, c+3r with c = 4r*floor(i/r) + i mod r.
struct Stage {
  int stride = 1;           // 4 * stride divides head_dim
  std::vector<So4> blocks;  // head_dim / 4
  bool operator==(const Stage&) const = default;
};
constexpr int FirstChannel(int block, int stride) { return 4 * stride * (block / stride) + block % stride; }

// The map of one head, z = U (x - offset) with U = Stage_n ... Stage_1 H S (calib/MATH.md section 1):
// S the optional signs, H the normalized Sylvester-Hadamard matrix of the largest power of two p that
// divides head_dim, repeated head_dim/p times, or the identity.
struct HeadTransform {
  int head_dim = 0;
  bool hadamard = false;
  std::vector<std::int8_t> signs;  // empty, or head_dim values of +1 / -1
  std::vector<Stage> stages;       // applied first to last
  std::vector<double> dense;       // empty, or U itself, row-major head_dim^2: then the three above are empty
  std::vector<float> offset;       // empty (zero), or head_dim values in the units of the activations

  bool operator==(const HeadTransform&) const = default;
  void Check()
      const;  // sizes, strides, unit norms (1e-6), signs, finite, dense orthogonal (1e-4); throws Error
};

// The reference in double: z = U (x - offset), x = U^T z + offset. Spans of head_dim values.
void ForwardExact(const HeadTransform& t, std::span<const double> x, std::span<double> z);
void InverseExact(const HeadTransform& t, std::span<const double> z, std::span<double> x);

// U as a row-major head_dim x head_dim matrix (the offset is not in it).
std::vector<double> DenseMatrix(const HeadTransform& t);

// Largest power of two that divides n > 0.
constexpr int PowerOfTwoPart(int n) { return n & -n; }

// Strides 1, 4, 16, ... below p; when p = 2 * 4^k the last one is p / 4. {1, 4, 16} at head_dim 64,
// {1, 4, 16, 32} at 128.
std::vector<int> ButterflyStrides(int head_dim);

// Stages at ButterflyStrides whose product is exactly H: every block is the 4 x 4 Hadamard matrix, those of
// a last stage of stride p / 4 with p = 2 * 4^k are H_2 (x) I_2. calib/MATH.md section 1.
std::vector<Stage> HadamardStages(int head_dim);

// Identity blocks at the given strides.
std::vector<Stage> IdentityStages(int head_dim, std::span<const int> strides);

}  // namespace so4cal
