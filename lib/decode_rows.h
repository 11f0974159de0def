// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lib/codec_spec.h"

namespace so4cal {

// Level times scale of every code: rows of spec.row_bytes() bytes -> [num_rows][head_dim] floats in the
// rotated frame. The same bits on every SIMD target. Codes without a level give 0; lib/check_rows.h finds
// them.
void DecodeRotatedRows(const CodecSpec& spec, std::span<const std::uint8_t> rows,
                       std::span<float> z) noexcept;

}  // namespace so4cal
