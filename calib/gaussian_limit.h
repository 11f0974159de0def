// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/codec_spec.h"

namespace so4cal {

// NMSE of independent N(0, 1) values under this grid, bits, block and scale rule with nearest rounding: what
// a rotation that spreads the energy perfectly would reach. Simulated on a fixed sample of 2^17 values, to
// about one per cent.
double GaussianLimit(const CodecSpec& codec);

}  // namespace so4cal
