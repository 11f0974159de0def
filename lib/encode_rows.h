// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lib/codec_spec.h"
#include "lib/feedback_rounding.h"

namespace so4cal {

// Encodes rows that are in the rotated frame: scales, codes, planes (lib/CODEC.md). Many tokens at a time,
// one per lane; the order of operations of a token does not depend on the others, so the bytes are the same
// on every SIMD target and in every batch. z: [n][head_dim] whose scales all fit fp16; rows: n *
// spec.row_bytes(), written. metric: null for nearest rounding, else made for this spec.
void EncodeRotatedRows(const CodecSpec& spec, const RoundingMetric* metric, std::span<const float> z,
                       std::span<std::uint8_t> rows) noexcept;

}  // namespace so4cal
