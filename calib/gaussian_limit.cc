// SPDX-License-Identifier: Apache-2.0
#include "calib/gaussian_limit.h"

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "calib/metrics.h"

namespace so4cal {
namespace {

// N(0, 1) by Box and Muller; std::normal_distribution differs between standard libraries.
std::vector<float> GaussianValues(std::size_t n) {
  std::mt19937_64 rng(20240601);
  const auto uniform = [&] { return (static_cast<double>(rng() >> 11) + 0.5) * 0x1p-53; };
  std::vector<float> values;
  while (values.size() < n) {
    const double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * std::numbers::pi * uniform();
    values.push_back(static_cast<float>(radius * std::cos(angle)));
    values.push_back(static_cast<float>(radius * std::sin(angle)));
  }
  return values;
}

}  // namespace

double GaussianLimit(const CodecSpec& codec) {
  constexpr std::size_t kValues = 1 << 17;
  HeadTable identity;
  identity.transform.head_dim = codec.head_dim;
  identity.chosen = Chosen::kIdentity;
  const std::vector<float> values = GaussianValues(kValues);
  const auto channels = static_cast<std::size_t>(codec.head_dim);
  return MeasureDistortion(codec, identity, {values.data(), kValues / channels, channels, codec.head_dim}, {})
      .nmse();
}

}  // namespace so4cal
