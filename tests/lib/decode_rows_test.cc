// SPDX-License-Identifier: Apache-2.0
#include "lib/decode_rows.h"

#include <gtest/gtest.h>

#include <random>

#include "lib/half.h"
#include "tests/reference/pack_row.h"
#include "tests/support/each_target.h"

namespace so4cal {
namespace {

// Every codec with blocks of 1 to 128 channels, random codes and scales: level times scale, one float
// product, on every target. Seed 7.
TEST(DecodeRows, LevelTimesScaleOnEveryTarget) {
  constexpr std::size_t kRows = 5;
  std::mt19937 random(7);
  for (const auto& grid_kind : GridKinds())
    for (const int bits : {2, 3, 4})
      for (const auto& [head_dim, block] : {std::pair{8, 1},
                                            {8, 2},
                                            {24, 4},
                                            {40, 8},
                                            {80, 16},
                                            {72, 24},
                                            {64, 32},
                                            {96, 48},
                                            {128, 64},
                                            {256, 128}}) {
        const CodecSpec spec{head_dim, bits, block, grid_kind.value, ScaleRule::kAbsmax};
        const Grid& grid = GridFor(spec.grid, spec.bits);
        std::vector<std::uint8_t> rows;
        std::vector<float> expected;
        for (std::size_t r = 0; r < kRows; ++r) {
          std::vector<std::uint16_t> scales;
          std::vector<std::uint8_t> codes;
          for (int b = 0; b < spec.num_blocks(); ++b)
            scales.push_back(HalfFromFloat(static_cast<float>(random() % 1000) / 100));
          for (int i = 0; i < head_dim; ++i) {
            codes.push_back(static_cast<std::uint8_t>(random() % grid.levels.size()));
            expected.push_back(FloatFromHalf(scales[static_cast<std::size_t>(i / block)]) *
                               grid.levels[codes.back()]);
          }
          std::vector<std::uint8_t> row(spec.row_bytes());
          reference::PackRow(spec, scales, codes, row);
          rows.insert(rows.end(), row.begin(), row.end());
        }
        ForEachTarget([&] {
          std::vector<float> z(expected.size());
          DecodeRotatedRows(spec, rows, z);
          EXPECT_EQ(z, expected) << grid_kind.name << bits << " d " << head_dim << " block " << block;
        });
      }
}

}  // namespace
}  // namespace so4cal
