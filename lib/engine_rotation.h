// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace so4cal {

// A fixed rotation F that an engine applies to every value vector v before it quantizes it, and undoes after
// attention: the cache holds F v. The same for all heads.
struct EngineRotation {
  enum class Kind : std::uint8_t { kNone, kHadamard, kSigns };
  Kind kind = Kind::kNone;
  // kHadamard: normalized Sylvester matrices of this size along the diagonal; 0: of the largest power of two
  // that divides the head size. Symmetric, so that F and its inverse are the same.
  int block = 0;
  // kSigns: d values of +1 / -1, F = H D(s1), or 2 d values, F = D(s2) H D(s1), s1 first. H as with block 0.
  std::vector<std::int8_t> signs;

  void Check()
      const;  // the block is 0 or a power of two from 2, signs are there and +1 or -1; throws UsageError
};

// F as a row-major head_dim x head_dim matrix, orthogonal. Throws Error when block or signs do not fit
// head_dim.
std::vector<double> EngineRotationMatrix(const EngineRotation& rotation, int head_dim);

}  // namespace so4cal
