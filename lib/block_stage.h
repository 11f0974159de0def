// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace so4cal {

// The blocks of one stage as 4 x 4 float matrices, coefficient by coefficient: row-major entry e of block i
// is at coefficients[e * (head_dim / 4) + i], so that neighbouring blocks load as one vector.
struct BlockStage {
  int stride = 1;
  std::vector<float> coefficients;
};

// Stage from row-major 4 x 4 floats, block after block (the order of the head table bytes), and back.
BlockStage StageFromBlocks(int stride, std::span<const float> blocks);
std::vector<float> BlocksFromStage(const BlockStage& stage);
BlockStage Transposed(const BlockStage& stage);  // every block transposed

// In place on rows of head_dim floats: out_r = (m_r0 v0 + m_r1 v1) + (m_r2 v2 + m_r3 v3), every operation
// rounded to float: the same bits on every SIMD target.
void ApplyStage(const BlockStage& stage, int head_dim, std::span<float> x) noexcept;

}  // namespace so4cal
