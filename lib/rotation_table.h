// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/activations.h"
#include "lib/head_table.h"

namespace so4cal {

// What a fit produces: for every layer and side the codec, and for every KV head the map and how it came out.
// Written by formats/, read by engines' exporters and by `report`. formats/FORMATS.md, "The rotation table".

enum class Family : std::uint8_t { kButterfly = 0, kSo4 = 1, kLeft = 2, kPlanar = 3, kNone = 4, kDense = 5 };
enum class LossKind : std::uint8_t { kExpected = 0, kExact = 1 };
enum class Objective : std::uint8_t { kMse = 0, kLogit = 1, kOutput = 2 };

std::span<const Named<Family>> Families();
std::span<const Named<LossKind>> LossKinds();
std::span<const Named<Objective>> Objectives();

// Error figures of one head with the table's codec and rounding; NaN where not measured.
// validation_, test_: NMSE (error energy / raw energy) on those tokens. "hadamard" is plain Hadamard with the
// head's own offset, not the codec of a table without calibration. decision_: on validation tokens, in the
// metric by which the guard chose (that of HeadOutcome::objective: mse: NMSE; logit: NMSE of the attention
// logits; output: NMSE of the attention output), for identity, for the start of the fit (Hadamard) and for
// the fitted map.
struct HeadErrors {
  double validation_identity = kNotMeasured, validation_hadamard = kNotMeasured,
         validation_fitted = kNotMeasured;
  double test_hadamard = kNotMeasured, test_chosen = kNotMeasured;
  double decision_identity = kNotMeasured, decision_hadamard = kNotMeasured, decision_fitted = kNotMeasured;

  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
  struct Field {
    const char* name;
    double HeadErrors::*value;
  };
  static std::span<const Field> Fields();  // all of the above, in this order
  // Not measured equals not measured.
  bool operator==(const HeadErrors& other) const;
};

// How the fit of one head went.
struct HeadOutcome {
  LossKind loss = LossKind::kExpected;
  Objective objective = Objective::kMse;
  float shrink = 1;            // share of the way from start to optimum that validation chose; 1 = all of it
  int iterations = 0;          // of the solver, summed over the independent parts of the head
  std::uint8_t converged = 1;  // 0: some part stopped at the iteration limit or failed
  HeadErrors errors;
  bool operator==(const HeadOutcome&) const = default;
};

struct SideTable {
  CodecSpec codec;
  Family family = Family::kButterfly;
  bool shared = false;                // --share layer: every head has the same map
  std::vector<HeadTable> heads;       // same strides, same hadamard flag in all
  std::vector<HeadOutcome> outcomes;  // one per head
  bool operator==(const SideTable&) const = default;
};

// [begin, end) token indices of one dump file.
struct TokenRange {
  std::uint64_t begin = 0, end = 0;
  bool operator==(const TokenRange&) const = default;
};

// The tokens of one dump file, sinks left out. Each list is in ascending order.
struct TokenSplit {
  std::vector<TokenRange> fit, validation, test;
  bool operator==(const TokenSplit&) const = default;
};

struct DumpRecord {
  std::string name;  // base name of the file
  std::uint64_t size_bytes = 0;
  std::uint64_t num_tokens = 0;
  TokenSplit split;
  bool operator==(const DumpRecord&) const = default;
};

struct LayerTable {
  int layer = 0;                   // global layer id of the model
  std::array<SideTable, 2> sides;  // indexed by Side
  // Per dump (same order as RotationTable::dumps): dataset name ("k", "v", "q", ...) -> content hash.
  std::vector<std::map<std::string, std::string>> hashes;
  std::map<std::string, std::uint64_t> counts;  // what fell back or was dropped in this layer, by reason
  const SideTable& side(Side s) const { return sides[static_cast<std::size_t>(s)]; }
  SideTable& side(Side s) { return sides[static_cast<std::size_t>(s)]; }
  bool operator==(const LayerTable&) const = default;
};

struct RotationTable {
  static constexpr int kFormatVersion = 1;
  std::string tool_version;  // of the so4cal that fitted it
  std::string model;         // free text from the dump
  int num_model_layers = 0;  // of the model, 0 when the dump does not say
  // All layers that the dump has, ascending, fitted or not: what a whole table holds. Empty without a dump.
  std::vector<std::uint64_t> dump_layers;
  std::uint64_t seed = 0;
  std::string options_json;  // resolved options that change the result
  std::string simd_target;   // of the fit
  std::vector<DumpRecord> dumps;
  std::vector<LayerTable> layers;  // ascending layer ids
  bool operator==(const RotationTable&) const = default;

  // Throws Error that names layer, side, head and field.
  void Check() const;
  const LayerTable* FindLayer(int layer) const;  // nullptr when absent
  std::map<std::string, std::uint64_t> TotalCounts() const;
};

// Storage order and direction of every matrix and quaternion in the files, in words; stored in each of them.
extern const char kConventionText[];

}  // namespace so4cal
