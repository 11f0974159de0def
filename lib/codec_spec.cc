// SPDX-License-Identifier: Apache-2.0
#include "lib/codec_spec.h"

#include <string>

#include "lib/error.h"

namespace so4cal {

void CodecSpec::Check() const {
  if (head_dim < 8 || head_dim > 1024 || head_dim % 8 != 0)
    throw Error("head_dim is " + std::to_string(head_dim) + ", expected a multiple of 8 from 8 to 1024");
  if (bits < 2 || bits > 4) throw Error("bits is " + std::to_string(bits) + ", expected 2, 3 or 4");
  if (block < 1 || head_dim % block != 0)
    throw Error("block is " + std::to_string(block) + ", expected a divisor of head_dim (" +
                std::to_string(head_dim) + ")");
  NameOf(GridKinds(), grid);
  NameOf(ScaleRules(), scale);
}

}  // namespace so4cal
