// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "calib/token_loss_kernel.h"
#include "lib/codec_spec.h"
#include "lib/rotation_table.h"

namespace so4cal {

// The stages that a loss is a function of: `channels / 4` blocks in each, matrices [stage][block][16].
struct StageShape {
  int channels = 0;
  std::vector<int> strides;
  std::size_t num_blocks() const { return strides.size() * static_cast<std::size_t>(channels / 4); }
  std::size_t num_matrix_entries() const { return 16 * num_blocks(); }
};

// What a fit minimizes: a function of the matrices of all blocks of a head, or of an independent part of it.
// One object serves one thread.
class RotationLoss {
 public:
  explicit RotationLoss(StageShape shape) : shape_(std::move(shape)) {}
  virtual ~RotationLoss() = default;
  RotationLoss(const RotationLoss&) = delete;  // losses keep spans into themselves
  RotationLoss& operator=(const RotationLoss&) = delete;
  const StageShape& shape() const { return shape_; }

  // The loss, relative to the energy of its tokens. gradient: dE/d matrices, overwritten; empty to skip it.
  virtual double Evaluate(std::span<const double> matrices, std::span<double> gradient) = 0;

 private:
  StageShape shape_;
};

// Expected or exact rounding error of tokens, calib/MATH.md section 3. T = float in the fit, double in tests.
template <class T>
class TokenLoss final : public RotationLoss {
 public:
  // rows: [tokens][row_stride] after offset, signs and Hadamard transform; channels [first_channel,
  // first_channel + shape.channels) are used and are whole quantization blocks of `codec`.
  TokenLoss(const StageShape& shape, LossKind kind, const CodecSpec& codec, std::span<const float> rows,
            std::size_t row_stride, std::size_t first_channel);

  double Evaluate(std::span<const double> matrices, std::span<double> gradient) override;

  // The sums of every quantization block over all tokens, not divided by the energy, and the gradient of
  // sum_b weights_b sums_b. Valid until the next call.
  std::span<const double> EvaluateWeighted(std::span<const double> matrices, std::span<double> gradient,
                                           std::span<const double> weights);

 private:
  std::vector<T> tiles_, levels_, midpoints_, mse_ratios_;
  std::vector<T> matrices_, workspace_, weights_;
  std::vector<double> block_sums_;
  TokenLossData<T> data_;
  double energy_ = 0;
};

extern template class TokenLoss<float>;
extern template class TokenLoss<double>;

}  // namespace so4cal
