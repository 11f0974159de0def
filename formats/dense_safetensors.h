// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "formats/dense_table.h"
#include "formats/safetensors.h"

namespace so4cal {

// The rotations of a file that is not so4cal's: tensors [PREFIX.]layers.N.[NAME.]{k,v}_rotation, [H, d, d] or
// [d, d], in the row convention, with {k,v}_offset beside them where there are offsets. Other tensors are
// ignored. Throws Error.
std::vector<DenseLayer> DenseFromSafetensors(const SafetensorsFile& file, const std::string& where);

}  // namespace so4cal
