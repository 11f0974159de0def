// SPDX-License-Identifier: Apache-2.0
#include "calib/loss.h"

#include <algorithm>
#include <numeric>

#include "lib/error.h"

namespace so4cal {
namespace {

// Rows to tiles, the last one padded with zeros.
template <class T>
std::vector<T> MakeTiles(std::span<const float> rows, std::size_t row_stride, std::size_t first,
                         std::size_t channels) {
  const std::size_t num_tokens = rows.size() / row_stride;
  const std::size_t num_tiles = (num_tokens + kTileTokens - 1) / kTileTokens;
  std::vector<T> tiles(num_tiles * channels * kTileTokens, T(0));
  for (std::size_t t = 0; t < num_tokens; ++t) {
    T* const tile = tiles.data() + t / kTileTokens * channels * kTileTokens;
    for (std::size_t c = 0; c < channels; ++c)
      tile[c * kTileTokens + t % kTileTokens] = static_cast<T>(rows[t * row_stride + first + c]);
  }
  return tiles;
}

template <class T>
std::vector<T> Convert(std::span<const float> values) {
  return {values.begin(), values.end()};
}

}  // namespace

template <class T>
TokenLoss<T>::TokenLoss(const StageShape& shape, LossKind kind, const CodecSpec& codec,
                        std::span<const float> rows, std::size_t row_stride, std::size_t first_channel)
    : RotationLoss(shape) {
  SO4CAL_CHECK(shape.channels % codec.block == 0 && shape.channels % 4 == 0);
  const Grid& grid = GridFor(codec.grid, codec.bits);
  const auto channels = static_cast<std::size_t>(shape.channels);
  tiles_ = MakeTiles<T>(rows, row_stride, first_channel, channels);
  levels_ = Convert<T>(grid.levels);
  midpoints_ = Convert<T>(grid.midpoints);
  mse_ratios_ = Convert<T>(grid.mse_ratios);
  matrices_.resize(shape.num_matrix_entries());
  workspace_.resize(TokenLossWorkspace(shape.channels, shape.strides.size()));
  block_sums_.resize(channels / static_cast<std::size_t>(codec.block));
  weights_.resize(block_sums_.size());
  for (const T v : tiles_) energy_ += static_cast<double>(v) * static_cast<double>(v);
  if (energy_ == 0) energy_ = 1;
  data_ = {.channels = shape.channels,
           .strides = this->shape().strides,
           .tiles = tiles_,
           .kind = kind,
           .scale = codec.scale,
           .grid = codec.grid,
           .block = codec.block,
           .top = static_cast<T>(grid.top),
           .levels = levels_,
           .midpoints = midpoints_,
           .mse_ratios = mse_ratios_,
           .block_weights = {}};
}

template <class T>
double TokenLoss<T>::Evaluate(std::span<const double> matrices, std::span<double> gradient) {
  std::ranges::transform(matrices, matrices_.begin(), [](double v) { return static_cast<T>(v); });
  EvaluateTokenLoss(data_, matrices_, workspace_, gradient, block_sums_);
  for (double& v : gradient) v /= energy_;
  return std::accumulate(block_sums_.begin(), block_sums_.end(), 0.0) / energy_;
}

template <class T>
std::span<const double> TokenLoss<T>::EvaluateWeighted(std::span<const double> matrices,
                                                       std::span<double> gradient,
                                                       std::span<const double> weights) {
  std::ranges::transform(matrices, matrices_.begin(), [](double v) { return static_cast<T>(v); });
  std::ranges::transform(weights, weights_.begin(), [](double v) { return static_cast<T>(v); });
  TokenLossData<T> data = data_;
  data.block_weights = weights_;
  EvaluateTokenLoss(data, matrices_, workspace_, gradient, block_sums_);
  return block_sums_;
}

template class TokenLoss<float>;
template class TokenLoss<double>;

}  // namespace so4cal
