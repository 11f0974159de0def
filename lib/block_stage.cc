// SPDX-License-Identifier: Apache-2.0
#include "lib/block_stage.h"

#include "lib/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/block_stage.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"
#include "lib/block_stage-inl.h"

#if HWY_ONCE
namespace so4cal {

HWY_EXPORT(StageKernel);

BlockStage StageFromBlocks(int stride, std::span<const float> blocks) {
  const std::size_t num_blocks = blocks.size() / 16;
  BlockStage stage{stride, std::vector<float>(blocks.size())};
  for (std::size_t i = 0; i < num_blocks; ++i)
    for (std::size_t e = 0; e < 16; ++e) stage.coefficients[e * num_blocks + i] = blocks[16 * i + e];
  return stage;
}

std::vector<float> BlocksFromStage(const BlockStage& stage) {
  const std::size_t num_blocks = stage.coefficients.size() / 16;
  std::vector<float> blocks(stage.coefficients.size());
  for (std::size_t i = 0; i < num_blocks; ++i)
    for (std::size_t e = 0; e < 16; ++e) blocks[16 * i + e] = stage.coefficients[e * num_blocks + i];
  return blocks;
}

BlockStage Transposed(const BlockStage& stage) {
  const std::size_t num_blocks = stage.coefficients.size() / 16;
  BlockStage out{stage.stride, std::vector<float>(stage.coefficients.size())};
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t c = 0; c < 4; ++c)
      for (std::size_t i = 0; i < num_blocks; ++i)
        out.coefficients[(4 * c + r) * num_blocks + i] = stage.coefficients[(4 * r + c) * num_blocks + i];
  return out;
}

void ApplyStage(const BlockStage& stage, int head_dim, std::span<float> x) noexcept {
  const auto n = static_cast<std::size_t>(head_dim);
  SO4CAL_CHECK(stage.coefficients.size() == 4 * n && x.size() % n == 0);
  HWY_DYNAMIC_DISPATCH(StageKernel)
  (stage.coefficients.data(), static_cast<std::size_t>(stage.stride), n, x.data(), x.size() / n);
}

}  // namespace so4cal
#endif
