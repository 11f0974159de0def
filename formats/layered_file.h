// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "formats/hdf5_write.h"
#include "formats/kv_dump_writer.h"

namespace so4cal {

// What dumps and rows files have in common: model, num_layers and /sequence_starts as the header says them,
// and a group /layers/<i> with something for both sides. Layer after layer goes to the disk. Atomic; the
// same bytes for the same values. Throws Error.
//   attributes: writes those of the root that only this kind of file has, before the common ones.
//   side: called in the order of layers, keys before values, with the path of the layer's group.
void WriteLayeredFile(
    const std::filesystem::path& out, const DumpHeader& header,
    const std::function<void(Hdf5FileWriter& file)>& attributes,
    const std::function<void(Hdf5FileWriter& file, const std::string& group, int layer, Side side)>& side);

}  // namespace so4cal
