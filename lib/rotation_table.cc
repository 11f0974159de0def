// SPDX-License-Identifier: Apache-2.0
#include "lib/rotation_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr Named<Family> kFamilies[] = {
    {Family::kButterfly, "butterfly", "stages of SO(4) blocks at strides 1, 4, 16, ..., started at Hadamard"},
    {Family::kSo4, "so4", "Hadamard, then one stage of SO(4) blocks"},
    {Family::kLeft, "left", "Hadamard, then one left quaternion per block"},
    {Family::kPlanar, "planar", "Hadamard, then two plane rotations per block"},
    {Family::kNone, "none", "nothing fitted: Hadamard or identity"},
    {Family::kDense, "dense", "a dense rotation made elsewhere"},
};
constexpr Named<LossKind> kLossKinds[] = {
    {LossKind::kExpected, "expected", "the expected rounding error, m s^2 / 12 per block"},
    {LossKind::kExact, "exact", "the rounding error of the tokens fitted"},
};
constexpr Named<Objective> kObjectives[] = {
    {Objective::kMse, "mse", "reconstruction of keys and values"},
    {Objective::kLogit, "logit", "attention logits (keys)"},
    {Objective::kOutput, "output", "attention output (values)"},
};

constexpr HeadErrors::Field kErrorFields[] = {
    {"validation_identity", &HeadErrors::validation_identity},
    {"validation_hadamard", &HeadErrors::validation_hadamard},
    {"validation_fitted", &HeadErrors::validation_fitted},
    {"test_hadamard", &HeadErrors::test_hadamard},
    {"test_chosen", &HeadErrors::test_chosen},
    {"decision_identity", &HeadErrors::decision_identity},
    {"decision_hadamard", &HeadErrors::decision_hadamard},
    {"decision_fitted", &HeadErrors::decision_fitted},
};

bool SameShape(const HeadTransform& a, const HeadTransform& b) {
  if (a.hadamard != b.hadamard || a.stages.size() != b.stages.size()) return false;
  for (std::size_t i = 0; i < a.stages.size(); ++i)
    if (a.stages[i].stride != b.stages[i].stride) return false;
  return true;
}

void CheckOutcome(const HeadOutcome& outcome) {
  NameOf(LossKinds(), outcome.loss);
  NameOf(Objectives(), outcome.objective);
  if (!(outcome.shrink >= 0 && outcome.shrink <= 1))
    throw Error("shrink is " + std::to_string(outcome.shrink) + ", expected 0 to 1");
  if (outcome.iterations < 0)
    throw Error("iterations is " + std::to_string(outcome.iterations) + ", expected 0 or more");
  if (outcome.converged > 1)
    throw Error("converged is " + std::to_string(int{outcome.converged}) + ", expected 0 or 1");
  for (const auto& [name, value] : HeadErrors::Fields())
    if (const double v = outcome.errors.*value; v < 0 || std::isinf(v))  // NaN: not measured
      throw Error("error figure " + std::string(name) + " is " + std::to_string(v) +
                  ", expected 0 or more, or NaN");
}

void CheckSide(const SideTable& side, const std::string& where) {
  try {
    side.codec.Check();
    NameOf(Families(), side.family);
    if (side.heads.empty()) throw Error("has no heads, expected at least one");
    if (side.outcomes.size() != side.heads.size())
      throw Error("has " + std::to_string(side.outcomes.size()) + " outcomes for " +
                  std::to_string(side.heads.size()) + " heads, expected one per head");
  } catch (const Error& e) {
    throw Error(where + ": " + e.what());
  }
  for (std::size_t h = 0; h < side.heads.size(); ++h) try {
      const HeadTable& head = side.heads[h];
      head.Check();
      if (head.transform.head_dim != side.codec.head_dim)
        throw Error("head_dim is " + std::to_string(head.transform.head_dim) + ", expected the codec's " +
                    std::to_string(side.codec.head_dim));
      if (!SameShape(head.transform, side.heads[0].transform))
        throw Error("Hadamard flag or strides differ from head 0's, expected the same in all heads");
      if ((side.family == Family::kDense) != (head.chosen == Chosen::kDense))
        throw Error("chosen is '" + std::string(NameOf(ChosenNames(), head.chosen)) + "' in family '" +
                    std::string(NameOf(Families(), side.family)) +
                    "', expected 'dense' in both or in neither");
      CheckOutcome(side.outcomes[h]);
    } catch (const Error& e) {
      throw Error(where + ", head " + std::to_string(h) + ": " + e.what());
    }
}

void CheckSplit(const DumpRecord& dump) {
  const auto& s = dump.split;
  for (const auto* ranges : {&s.fit, &s.validation, &s.test}) {
    std::uint64_t previous_end = 0;
    for (const TokenRange& range : *ranges) {
      if (range.begin < previous_end || range.end < range.begin || range.end > dump.num_tokens)
        throw Error("dump '" + dump.name + "': token range " + std::to_string(range.begin) + " to " +
                    std::to_string(range.end) + ", expected ascending ranges within its " +
                    std::to_string(dump.num_tokens) + " tokens");
      previous_end = range.end;
    }
  }
}

}  // namespace

std::span<const Named<Family>> Families() { return kFamilies; }
std::span<const Named<LossKind>> LossKinds() { return kLossKinds; }
std::span<const Named<Objective>> Objectives() { return kObjectives; }

std::span<const HeadErrors::Field> HeadErrors::Fields() { return kErrorFields; }

bool HeadErrors::operator==(const HeadErrors& other) const {
  return std::ranges::all_of(kErrorFields, [&](const Field& field) {
    const double a = this->*field.value, b = other.*field.value;
    return a == b || (std::isnan(a) && std::isnan(b));
  });
}

void RotationTable::Check() const {
  for (const DumpRecord& dump : dumps) CheckSplit(dump);
  if (std::ranges::adjacent_find(dump_layers, std::greater_equal{}) != dump_layers.end())
    throw Error("dump_layers: expected ascending layer ids");
  if (layers.empty()) throw Error("the table has no layers, expected at least one");
  int previous = -1;
  for (const LayerTable& layer : layers) {
    const std::string where = "layer " + std::to_string(layer.layer);
    if (layer.layer <= previous)
      throw Error(where + ": follows layer " + std::to_string(previous) +
                  ", expected ascending layer ids from 0");
    if (num_model_layers != 0 && layer.layer >= num_model_layers)
      throw Error(where + ": expected an id below the model's " + std::to_string(num_model_layers) +
                  " layers");
    if (layer.hashes.size() != dumps.size())
      throw Error(where + ": has hashes of " + std::to_string(layer.hashes.size()) + " dumps, expected " +
                  std::to_string(dumps.size()));
    if (!dump_layers.empty() &&
        !std::ranges::binary_search(dump_layers, static_cast<std::uint64_t>(layer.layer)))
      throw Error(where + ": expected a layer that dump_layers lists");
    previous = layer.layer;
    for (const Side side : kSides) CheckSide(layer.side(side), where + ", side " + SideName(side));
    if (layer.sides[0].heads.size() != layer.sides[1].heads.size())
      throw Error(where + ": has " + std::to_string(layer.sides[0].heads.size()) + " key heads and " +
                  std::to_string(layer.sides[1].heads.size()) + " value heads, expected the same number");
  }
}

const LayerTable* RotationTable::FindLayer(int layer) const {
  for (const LayerTable& candidate : layers)
    if (candidate.layer == layer) return &candidate;
  return nullptr;
}

std::map<std::string, std::uint64_t> RotationTable::TotalCounts() const {
  std::map<std::string, std::uint64_t> total;
  for (const LayerTable& layer : layers)
    for (const auto& [reason, count] : layer.counts) total[reason] += count;
  return total;
}

const char kConventionText[] =
    "Column vectors: z = U (x - offset), x = U^T z + offset, x post-RoPE. U = Stage_n ... Stage_1 H S: signs "
    "S "
    "first, then the Walsh-Hadamard matrix H (normalized Sylvester order, repeated on sections of the "
    "largest "
    "power of two that divides head_dim), then the stages in order. A stage of stride r has head_dim/4 "
    "blocks; "
    "block i acts on channels c, c+r, c+2r, c+3r with c = 4 r floor(i/r) + i mod r. Quaternions are "
    "scalar-first "
    "(w, x, y, z); a block maps v to qL v conj(qR), the matrix L(qL) R(conj qR). Matrices are row-major.";

}  // namespace so4cal
