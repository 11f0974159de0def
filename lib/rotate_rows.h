// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lib/block_stage.h"
#include "lib/transform.h"

namespace so4cal {

// HeadTransform in the precision of the per-row path. Both directions are kept: the inverse of a block is
// its transpose.
struct RotationF32 {
  int head_dim = 0;
  bool hadamard = false;
  std::vector<float> signs;         // empty, or head_dim values of +1 / -1
  std::vector<BlockStage> forward;  // first to last
  std::vector<BlockStage> inverse;  // of the transposed blocks, last to first
  std::vector<float> dense;         // empty, or U row-major: then the four above are empty
  std::vector<float> offset;        // empty, or head_dim values

  void AddStage(BlockStage stage);  // after the stages that are there
};

// Every coefficient of t rounded to float. t has passed Check().
RotationF32 MakeRotationF32(const HeadTransform& t);

// U as the float coefficients give it, computed in double, row-major: the rounding metric is built from it.
std::vector<double> DenseMatrix(const RotationF32& r);

// In place on rows of head_dim floats. The same bits on every SIMD target.
void SubtractOffset(const RotationF32& r, std::span<float> x) noexcept;  // x - offset
void AddOffset(const RotationF32& r, std::span<float> x) noexcept;       // x + offset
void RotateRows(const RotationF32& r, std::span<float> x) noexcept;      // U x
void UnrotateRows(const RotationF32& r, std::span<float> z) noexcept;    // U^T z

}  // namespace so4cal
