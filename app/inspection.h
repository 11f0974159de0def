// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "calib/statistics.h"
#include "formats/kv_dump.h"

namespace so4cal {

struct HeadInspection {
  int layer = 0;
  Side side = Side::kKey;
  int head = 0;
  HeadStatistics statistics;
};

// Reads every layer, keys and values; ordered by layer, side, head.
std::vector<HeadInspection> InspectHeads(const KvDump& dump);

std::string InspectionText(const KvDump& dump, const std::vector<HeadInspection>& heads);
std::string InspectionJson(const KvDump& dump, const std::vector<HeadInspection>& heads);

}  // namespace so4cal
