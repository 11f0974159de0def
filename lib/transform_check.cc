// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include "lib/error.h"
#include "lib/transform.h"

namespace so4cal {
namespace {

constexpr double kUnitTolerance = 1e-6;
constexpr double kOrthogonalTolerance = 1e-4;

using std::to_string;

double SquaredNorm(const Quat& q) { return q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]; }

void CheckStage(const Stage& stage, std::size_t index, int head_dim) {
  const std::string where = "stage " + to_string(index);
  if (stage.stride < 1 || stage.stride > head_dim / 4 || head_dim % (4 * stage.stride) != 0)
    throw Error(where + ": stride is " + to_string(stage.stride) +
                ", expected 4 * stride to divide head_dim (" + to_string(head_dim) + ")");
  if (stage.blocks.size() != static_cast<std::size_t>(head_dim) / 4)
    throw Error(where + ": has " + to_string(stage.blocks.size()) +
                " blocks, expected head_dim / 4 = " + to_string(head_dim / 4));
  for (std::size_t i = 0; i < stage.blocks.size(); ++i)
    for (const Quat* q : {&stage.blocks[i].left, &stage.blocks[i].right}) {
      const double norm = std::sqrt(SquaredNorm(*q));
      if (!(std::abs(norm - 1) <= kUnitTolerance))  // NaN fails too
        throw Error(where + ", block " + to_string(i) + ": quaternion has norm " + to_string(norm) +
                    ", expected 1 within 1e-6");
    }
}

void CheckDense(const std::vector<double>& u, int head_dim) {
  const auto n = static_cast<std::size_t>(head_dim);
  if (u.size() != n * n)
    throw Error("dense rotation has " + to_string(u.size()) +
                " values, expected head_dim^2 = " + to_string(n * n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double dot = 0;
      for (std::size_t k = 0; k < n; ++k) dot += u[i * n + k] * u[j * n + k];
      if (!(std::abs(dot - (i == j ? 1 : 0)) <= kOrthogonalTolerance))
        throw Error("dense rotation is not orthogonal: rows " + to_string(j) + " and " + to_string(i) +
                    " have the inner product " + to_string(dot) + ", expected " + (i == j ? "1" : "0") +
                    " within 1e-4");
    }
}

}  // namespace

void HeadTransform::Check() const {
  if (head_dim < 8 || head_dim > 1024 || head_dim % 8 != 0)
    throw Error("head_dim is " + to_string(head_dim) + ", expected a multiple of 8 from 8 to 1024");
  const auto n = static_cast<std::size_t>(head_dim);
  if (!signs.empty() && signs.size() != n)
    throw Error("signs has " + to_string(signs.size()) +
                " values, expected none or head_dim = " + to_string(n));
  for (std::size_t i = 0; i < signs.size(); ++i)
    if (signs[i] != 1 && signs[i] != -1)
      throw Error("sign of channel " + to_string(i) + " is " + to_string(static_cast<int>(signs[i])) +
                  ", expected 1 or -1");
  if (!offset.empty() && offset.size() != n)
    throw Error("offset has " + to_string(offset.size()) +
                " values, expected none or head_dim = " + to_string(n));
  for (std::size_t i = 0; i < offset.size(); ++i)
    if (!std::isfinite(offset[i]))
      throw Error("offset of channel " + to_string(i) + " is NaN or infinite, expected a finite number");
  if (!dense.empty()) {
    if (hadamard || !signs.empty() || !stages.empty())
      throw Error("a dense rotation can't be combined with Hadamard, signs or stages: leave those out");
    return CheckDense(dense, head_dim);
  }
  for (std::size_t i = 0; i < stages.size(); ++i) CheckStage(stages[i], i, head_dim);
}

}  // namespace so4cal
