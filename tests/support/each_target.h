// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>
#include <hwy/targets.h>
namespace so4cal {
// Runs `body` once per instruction set this machine has, the emulated one included.
template <class Body>
void ForEachTarget(Body body) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}
}  // namespace so4cal
