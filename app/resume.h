// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "formats/kv_dump.h"
#include "formats/partial_table.h"

namespace so4cal {

// The layers in `partial`, once they are known to be what a fit of `layers` with the provenance of `table`
// would give: the same options, dumps, version and instruction set, and the dumps' content read again and
// compared. Throws Error that lists what differs and how to go on. Nothing when interrupted.
std::optional<std::vector<LayerTable>> ResumableLayers(const PartialTable& partial,
                                                       const RotationTable& table, const KvDump& dump,
                                                       std::span<const int> layers);

}  // namespace so4cal
