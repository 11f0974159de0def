// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/report.h"
#include "app/table_match.h"

namespace so4cal {

// Why something could not be measured -> the layers.
using MissingByReason = std::map<std::string, std::set<int>>;

// Measures every head of one layer: keys, then values. Throws Error as MeasureBaselines does.
std::vector<HeadReport> MeasureLayer(const RotationTable& table, const LayerTable& layer, const KvDump& dump,
                                     const ReportTokens& tokens, MissingByReason& missing);

}  // namespace so4cal
