// SPDX-License-Identifier: Apache-2.0
#include "lib/engine_rotation.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/error.h"
#include "lib/transform.h"

namespace so4cal {
namespace {

// Sylvester: the sign of entry (i, j) is the parity of the common bits of i and j.
std::vector<double> Hadamard(std::size_t n, std::size_t block) {
  std::vector<double> h(n * n, 0.0);
  const double scale = 1 / std::sqrt(static_cast<double>(block));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i / block * block; j < i / block * block + block; ++j)
      h[i * n + j] = std::popcount((i % block) & (j % block)) % 2 == 0 ? scale : -scale;
  return h;
}

}  // namespace

void EngineRotation::Check() const {
  const bool power = block >= 2 && std::has_single_bit(static_cast<unsigned>(block));
  if (kind == Kind::kHadamard && block != 0 && !power)
    throw UsageError("engine rotation: the Hadamard block is " + std::to_string(block) +
                     ", expected a power of two from 2");
  if (kind == Kind::kSigns && signs.empty()) throw UsageError("engine rotation: there are no signs");
  for (const std::int8_t sign : signs)
    if (sign != 1 && sign != -1)
      throw UsageError("engine rotation: a sign is " + std::to_string(sign) + ", expected 1 or -1");
}

std::vector<double> EngineRotationMatrix(const EngineRotation& rotation, int head_dim) {
  rotation.Check();
  const auto n = static_cast<std::size_t>(head_dim);
  if (rotation.kind == EngineRotation::Kind::kNone) {
    std::vector<double> identity(n * n, 0.0);
    for (std::size_t i = 0; i < n; ++i) identity[i * n + i] = 1;
    return identity;
  }
  const int block = rotation.block != 0 ? rotation.block : PowerOfTwoPart(head_dim);
  if (head_dim % block != 0)
    throw Error("engine rotation: its Hadamard block " + std::to_string(block) +
                " does not divide the head size " + std::to_string(head_dim));
  std::vector<double> f = Hadamard(n, static_cast<std::size_t>(block));
  if (rotation.kind == EngineRotation::Kind::kHadamard) return f;
  const std::vector<std::int8_t>& signs = rotation.signs;
  if (signs.size() != n && signs.size() != 2 * n)
    throw Error("engine rotation: there are " + std::to_string(signs.size()) + " signs, expected " +
                std::to_string(n) + " or " + std::to_string(2 * n) + " for the head size " +
                std::to_string(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) f[i * n + j] *= signs[j] * (signs.size() == n ? 1 : signs[n + i]);
  return f;
}

}  // namespace so4cal
