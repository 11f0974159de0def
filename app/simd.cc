// SPDX-License-Identifier: Apache-2.0
#include "app/simd.h"

#include <hwy/targets.h>

#include <cstdint>

namespace so4cal {

std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  // Highway gives better targets lower bits.
  const std::int64_t targets = hwy::SupportedTargets() & std::int64_t{HWY_TARGETS};
  for (std::int64_t bit = 1; bit != 0 && bit <= targets; bit <<= 1)
    if ((targets & bit) != 0) names.emplace_back(hwy::TargetName(bit));
  return names;
}

std::string BestSimdTarget() {
  const std::vector<std::string> names = SimdTargets();
  return names.empty() ? "scalar" : names.front();
}

}  // namespace so4cal
