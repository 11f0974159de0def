// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "formats/kv_dump.h"
#include "lib/rotation_table.h"

namespace so4cal {

struct CheckResult {
  bool passed = false;
  std::string text;  // what was checked, on how much, and the figure found with its limit
};

// Every head's map is orthogonal: entries of U U^T - I.
CheckResult CheckOrthogonality(const RotationTable& table);

// The same after rounding U to bf16, in which SGLang's OSCAR uses it, within what that rounding can do. Says
// so above the 5e-3 that OSCAR's tools allow in f32.
CheckResult CheckOrthogonalityInBf16(const RotationTable& table);

// Planted vectors: the matrix by hand, U (x - offset), agrees with the codec's rotation, and the codec's way
// back gives x again.
CheckResult CheckConvention(const RotationTable& table);

// `table` maps every planted vector of every head to where `reference` maps it, with the same codec.
CheckResult CheckAgainst(const RotationTable& table, const RotationTable& reference);

// Encodes and decodes the dump. Its error is the one that `reference` (or, without it, the table itself) has
// on the same tokens; where the file holds no metric, with nearest rounding in both.
CheckResult CheckReconstruction(const RotationTable& table, const RotationTable* reference,
                                const KvDump& dump);

}  // namespace so4cal
