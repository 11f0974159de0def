// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/kv_dump.h"

namespace so4cal {

// Where the datasets of one layer are. Paths are absolute.
struct LayerPaths {
  int layer = 0;
  std::string group;  // holds the layer's attributes and optional datasets; empty: there is no such group
  std::string key, value;
  std::optional<hsize_t> index;  // along the first axis, where one dataset holds all layers
};

// The layers of an open dump, ascending: from /layers/<i>, from names with {layer}, or from the first axis of
// /k at the root. Keys and values are there as datasets; nothing else is checked. Throws Error.
std::vector<LayerPaths> FindLayers(hid_t file, const std::string& file_name, const DumpOptions& options);

}  // namespace so4cal
