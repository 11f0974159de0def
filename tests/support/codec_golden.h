// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/head_table.h"

namespace so4cal {

// The input and the head of the golden files tests/golden/good/row_v1_*: integers and exact fractions only,
// so that any language can make them again (tests/install/program.c does).

// Multiples of 1/512 in [-4, 4).
inline std::vector<float> GoldenInput(std::size_t count) {
  std::uint32_t state = 1;
  std::vector<float> x(count);
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>(state >> 20) - 2048) / 512;
  }
  return x;
}

// head_dim 64 with everything: offset, signs, Hadamard and stages at strides 1, 4 and 16.
inline HeadTransform GoldenTransform() {
  const So4 blocks[] = {{{0.5, 0.5, 0.5, 0.5}, {0.6, 0.8, 0, 0}},
                        {{0.28, 0, 0.96, 0}, {0, 0.6, 0, -0.8}},
                        {{1, 0, 0, 0}, {0.8, 0, 0, 0.6}}};
  HeadTransform t;
  t.head_dim = 64;
  t.hadamard = true;
  for (int i = 0; i < 64; ++i) {
    t.signs.push_back(i % 3 == 0 ? -1 : 1);
    t.offset.push_back(static_cast<float>(i % 5) / 4);
  }
  for (const int stride : {1, 4, 16}) {
    Stage stage{stride, {}};
    for (std::size_t i = 0; i < 16; ++i) stage.blocks.push_back(blocks[i % 3]);
    t.stages.push_back(stage);
  }
  return t;
}

}  // namespace so4cal
