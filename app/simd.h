// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace so4cal {

// Names of the vector instruction sets that this binary has code for and this CPU runs, best first.
std::vector<std::string> SimdTargets();
std::string BestSimdTarget();  // the one in use

}  // namespace so4cal
