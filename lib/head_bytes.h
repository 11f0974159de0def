// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lib/head_table.h"
#include "lib/rotate_rows.h"

namespace so4cal {

// Head table bytes, read. The bytes hold blocks as 4 x 4 floats: `rotation` has exactly those (of the whole
// map, whatever `table.chosen` selects), so that a codec made from bytes encodes the same rows as the one
// they were made from; `table` has them as quaternions, equal to float accuracy.
struct HeadFromBytes {
  CodecSpec spec;
  HeadTable table;
  RotationF32 rotation;
};

// Throws Error on anything malformed; never reads outside `bytes`. lib/CODEC.md, "Head table bytes".
HeadFromBytes ReadHeadBytes(std::span<const std::uint8_t> bytes);

}  // namespace so4cal
