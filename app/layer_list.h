// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// "0-7,12" -> {0, ..., 7, 12}, ascending, each once. Throws UsageError on anything else. Ids up to 99999.
std::vector<int> ParseLayerList(std::string_view text);

// The reverse: {0, 1, 2, 12} -> "0-2,12".
std::string LayerListText(std::span<const int> layers);

}  // namespace so4cal
