// SPDX-License-Identifier: Apache-2.0
#include "calib/token_loss_kernel.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calib/token_loss_kernel.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target
#include "hwy/highway.h"

#include "calib/rounding_loss-inl.h"
#include "calib/stage_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {

// Adds the vector sums of the matrices' gradient to the double ones and clears them.
template <class T>
void FlushSums(std::span<T> sums, std::span<double> gradient) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sums.data() + i * lanes))));
  std::ranges::fill(sums, T(0));
}

// Workspace: stage outputs z_1..z_n, the derivative, then the vector sums.
template <class T>
void Evaluate(const TokenLossData<T>& data, std::span<const T> matrices, std::span<T> workspace,
              std::span<double> gradient, std::span<double> block_sums) {
  const hn::ScalableTag<T> d;
  constexpr std::size_t kTilesPerFlush = 16;
  const std::size_t tile_size = static_cast<std::size_t>(data.channels) * kTileTokens;
  const std::size_t num_stages = data.strides.size();
  const std::size_t stage_size = static_cast<std::size_t>(data.channels) * 4;  // 16 per block
  T* const z = workspace.data();
  T* const g = z + num_stages * tile_size;
  const std::span<T> sums(g + tile_size, gradient.size() * hn::Lanes(d));
  std::ranges::fill(sums, T(0));
  std::ranges::fill(gradient, 0.0);
  std::ranges::fill(block_sums, 0.0);
  const std::size_t num_tiles = data.tiles.size() / tile_size;
  for (std::size_t tile = 0; tile < num_tiles; ++tile) {
    const T* const x = data.tiles.data() + tile * tile_size;
    const auto input = [&](std::size_t stage) { return stage == 0 ? x : z + (stage - 1) * tile_size; };
    for (std::size_t s = 0; s < num_stages; ++s)
      ApplyStage<false>(data.channels, data.strides[s], matrices.data() + s * stage_size, input(s),
                        z + s * tile_size);
    RoundingLoss(data, input(num_stages), g, block_sums.data());
    if (gradient.empty()) continue;
    for (std::size_t s = num_stages; s-- > 0;) {
      AccumulateStage(data.channels, data.strides[s], g, input(s),
                      sums.data() + s * stage_size * hn::Lanes(d));
      if (s > 0) ApplyStage<true>(data.channels, data.strides[s], matrices.data() + s * stage_size, g, g);
    }
    if ((tile + 1) % kTilesPerFlush == 0) FlushSums(sums, gradient);
  }
  if (!gradient.empty()) FlushSums(sums, gradient);
}

void EvaluateF32(const TokenLossData<float>& data, std::span<const float> matrices,
                 std::span<float> workspace, std::span<double> gradient, std::span<double> block_sums) {
  Evaluate(data, matrices, workspace, gradient, block_sums);
}
void EvaluateF64(const TokenLossData<double>& data, std::span<const double> matrices,
                 std::span<double> workspace, std::span<double> gradient, std::span<double> block_sums) {
  Evaluate(data, matrices, workspace, gradient, block_sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace so4cal {
HWY_EXPORT(EvaluateF32);
HWY_EXPORT(EvaluateF64);

std::size_t TokenLossWorkspace(int channels, std::size_t num_stages) {
  constexpr std::size_t kMaxLanes = 64;  // f32 in 2,048 bits, the widest vector of any target
  const auto c = static_cast<std::size_t>(channels);
  return (num_stages + 1) * c * kTileTokens + num_stages * c * 4 * kMaxLanes;
}

void EvaluateTokenLoss(const TokenLossData<float>& data, std::span<const float> matrices,
                       std::span<float> workspace, std::span<double> gradient, std::span<double> block_sums) {
  HWY_DYNAMIC_DISPATCH(EvaluateF32)(data, matrices, workspace, gradient, block_sums);
}
void EvaluateTokenLoss(const TokenLossData<double>& data, std::span<const double> matrices,
                       std::span<double> workspace, std::span<double> gradient,
                       std::span<double> block_sums) {
  HWY_DYNAMIC_DISPATCH(EvaluateF64)(data, matrices, workspace, gradient, block_sums);
}
}  // namespace so4cal
#endif
