// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lib/codec_spec.h"

namespace so4cal {

// Reads the planes of one row, lib/CODEC.md, "Row format, version 1". codes: head_dim values below 2^bits;
// scales: one fp16 pattern per block; row: spec.row_bytes() bytes.
void UnpackScales(std::span<const std::uint8_t> row, std::span<std::uint16_t> scales) noexcept;
void UnpackCodes(const CodecSpec& spec, std::span<const std::uint8_t> row,
                 std::span<std::uint8_t> codes) noexcept;

}  // namespace so4cal
