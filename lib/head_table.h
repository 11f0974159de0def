// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/codec_spec.h"
#include "lib/names.h"
#include "lib/transform.h"

namespace so4cal {

enum class Rounding : std::uint8_t { kNearest = 0, kFeedback = 1, kRefined = 2 };
// Which map the head uses: none, the start of the fit (plain Hadamard), the fitted one, an imported matrix.
enum class Chosen : std::uint8_t { kIdentity = 0, kHadamard = 1, kFitted = 2, kDense = 3 };

std::span<const Named<Rounding>> Roundings();  // nearest, feedback, refined
std::span<const Named<Chosen>> ChosenNames();  // identity, hadamard, fitted, dense

// What an engine needs for one head of one side, beside the CodecSpec.
struct HeadTable {
  static constexpr int kMaxRounds = 64;
  static constexpr float kMaxDamping = 1000;
  HeadTransform transform;  // a head that was not fitted keeps the fit's start here
  Chosen chosen = Chosen::kFitted;
  Rounding rounding = Rounding::kNearest;
  float damping = 0;          // relative to tr(M)/d, at most kMaxDamping; 0 with nearest rounding
  int rounds = 0;             // of refinement, at most kMaxRounds; 0 unless refined
  std::vector<float> metric;  // M in the raw frame, row-major head_dim^2; empty with nearest rounding

  bool operator==(const HeadTable&) const = default;
  void Check() const;  // throws Error

  // The map that `chosen` selects: kIdentity drops signs, Hadamard and stages and keeps the offset.
  HeadTransform Effective() const;
};

// The C ABI's self-describing bytes, lib/CODEC.md, "Head table bytes". Little-endian, same input same bytes.
std::vector<std::uint8_t> SerializeHeadTable(const CodecSpec& spec, const HeadTable& table);

struct ParsedHeadTable {
  CodecSpec spec;
  HeadTable table;
};
// Throws Error on anything malformed; never reads outside `bytes`.
ParsedHeadTable ParseHeadTable(std::span<const std::uint8_t> bytes);

}  // namespace so4cal
