// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <set>
#include <sstream>
#include <type_traits>

#include "formats/table_fields.h"

namespace so4cal {
namespace {

constexpr std::uint64_t kMaxHeads = 65536;

// One number per head, stored as Stored; field(h) is a reference into the table.
template <class Stored, class Field>
void Column(TableArchive& ar, const std::string& name, std::size_t num_heads, Field field) {
  using T = std::remove_reference_t<decltype(field(0))>;
  std::vector<Stored> values(num_heads);
  if (!ar.loading())
    for (std::size_t h = 0; h < num_heads; ++h) values[h] = static_cast<Stored>(field(h));
  ar.Array(name, &values, {num_heads});
  for (std::size_t h = 0; h < num_heads; ++h) {
    if constexpr (std::is_integral_v<T>)
      if (values[h] > static_cast<Stored>(std::numeric_limits<T>::max()))
        ar.Fail(name,
                "head " + std::to_string(h) + " has " + std::to_string(values[h]) + ", which is too large");
    field(h) = static_cast<T>(values[h]);
  }
}

template <class T, class Field>
void CodeColumn(TableArchive& ar, const std::string& name, std::size_t num_heads,
                std::span<const Named<T>> choices, Field field) {
  Legend legend;
  for (const Named<T>& row : choices) legend.emplace_back(static_cast<std::uint8_t>(row.value), row.name);
  std::vector<std::uint8_t> codes(num_heads);
  for (std::size_t h = 0; h < num_heads; ++h) codes[h] = static_cast<std::uint8_t>(field(h));
  ar.Codes(name, codes, legend);
  for (std::size_t h = 0; h < num_heads; ++h) field(h) = static_cast<T>(codes[h]);
}

enum class ZeroRow { kIsNone, kIsKept };

// An optional array of `shape` per head; field(h) is its vector. Written when any head has one: the names are
// in `present`. Heads without get a row of zeros; on loading such a row becomes "none" for fields where zeros
// mean nothing.
template <class T, class Field>
void Rows(TableArchive& ar, const std::string& name, const std::set<std::string>& present,
          std::size_t num_heads, Shape shape, ZeroRow zero_row, Field field) {
  if (!present.contains(name)) return;
  const std::size_t width = NumElements(shape);
  std::vector<T> values(ar.loading() ? 0 : num_heads * width);
  if (!ar.loading())
    for (std::size_t h = 0; h < num_heads; ++h)
      std::copy(field(h).begin(), field(h).end(), values.begin() + static_cast<std::ptrdiff_t>(h * width));
  shape.insert(shape.begin(), num_heads);
  ar.Array(name, &values, shape);
  if (!ar.loading()) return;
  for (std::size_t h = 0; h < num_heads; ++h) {
    const auto row = std::span<const T>(values).subspan(h * width, width);
    const bool zeros = std::all_of(row.begin(), row.end(), [](T v) { return v == T{0}; });
    if (!zeros || zero_row == ZeroRow::kIsKept) field(h).assign(row.begin(), row.end());
  }
}

// The optional arrays that the file has, as the field `arrays`: one that got lost must not pass for absent.
std::set<std::string> PresentArrays(TableArchive& ar, const SideTable& side) {
  std::string text;
  const auto add = [&](const char* name, auto has) {
    if (std::any_of(side.heads.begin(), side.heads.end(), has))
      text.append(text.empty() ? "" : " ").append(name);
  };
  add("dense", [](const HeadTable& h) { return !h.transform.dense.empty(); });
  add("signs", [](const HeadTable& h) { return !h.transform.signs.empty(); });
  add("offset", [](const HeadTable& h) { return !h.transform.offset.empty(); });
  add("metric", [](const HeadTable& h) { return !h.metric.empty(); });
  ar.Text("arrays", text);
  std::istringstream words(text);
  std::set<std::string> present;
  for (std::string word; words >> word;) {
    if (word != "dense" && word != "signs" && word != "offset" && word != "metric")
      ar.Fail("arrays", "has '" + word + "', expected some of dense, signs, offset, metric");
    present.insert(word);
  }
  return present;
}

void Stages(TableArchive& ar, SideTable& side) {
  std::vector<std::uint64_t> strides;
  if (!ar.loading() && !side.heads.empty())
    for (const Stage& stage : side.heads.front().transform.stages)
      strides.push_back(static_cast<std::uint64_t>(stage.stride));
  ar.Numbers("strides", strides);
  if (strides.empty()) return;
  const std::size_t blocks = static_cast<std::size_t>(side.codec.head_dim) / 4;
  for (const std::uint64_t stride : strides)
    if (stride < 1 || stride > blocks)
      ar.Fail("strides", "has " + std::to_string(stride) + ", expected 1 to head_dim / 4");
  std::vector<double> values;
  for (const HeadTable& head : side.heads)
    for (const Stage& stage : head.transform.stages)
      for (const So4& block : stage.blocks) {
        values.insert(values.end(), block.left.begin(), block.left.end());
        values.insert(values.end(), block.right.begin(), block.right.end());
      }
  ar.Array("quaternions", &values, {side.heads.size(), strides.size(), blocks, 2, 4});
  if (!ar.loading()) return;
  const double* next = values.data();
  for (HeadTable& head : side.heads)
    for (const std::uint64_t stride : strides) {
      Stage& stage = head.transform.stages.emplace_back();
      stage.stride = static_cast<int>(stride);
      for (std::size_t i = 0; i < blocks; ++i, next += 8)
        stage.blocks.push_back({{next[0], next[1], next[2], next[3]}, {next[4], next[5], next[6], next[7]}});
    }
}

void ErrorFigures(TableArchive& ar, std::vector<HeadOutcome>& outcomes) {
  const auto fields = HeadErrors::Fields();
  Legend columns;
  for (const HeadErrors::Field& field : fields)
    columns.emplace_back(static_cast<std::uint8_t>(columns.size()), field.name);
  std::vector<double> values;
  for (const HeadOutcome& outcome : outcomes)
    for (const HeadErrors::Field& field : fields) values.push_back(outcome.errors.*field.value);
  ar.Array("errors", &values, {outcomes.size(), fields.size()}, columns);
  const double* next = values.data();
  for (HeadOutcome& outcome : outcomes)
    for (const HeadErrors::Field& field : fields) outcome.errors.*field.value = *next++;
}

void Outcomes(TableArchive& ar, SideTable& side) {
  const std::size_t n = side.heads.size();
  auto& outcomes = side.outcomes;
  CodeColumn<LossKind>(ar, "loss", n, LossKinds(),
                       [&](std::size_t h) -> LossKind& { return outcomes[h].loss; });
  CodeColumn<Objective>(ar, "objective", n, Objectives(),
                        [&](std::size_t h) -> Objective& { return outcomes[h].objective; });
  Column<float>(ar, "shrink", n, [&](std::size_t h) -> float& { return outcomes[h].shrink; });
  Column<std::uint64_t>(ar, "iterations", n, [&](std::size_t h) -> int& { return outcomes[h].iterations; });
  Column<std::uint8_t>(ar, "converged", n,
                       [&](std::size_t h) -> std::uint8_t& { return outcomes[h].converged; });
  ErrorFigures(ar, outcomes);
}

void Heads(TableArchive& ar, SideTable& side) {
  const std::size_t n = side.heads.size();
  const auto d = static_cast<std::uint64_t>(side.codec.head_dim);
  auto& heads = side.heads;
  bool hadamard = n > 0 && heads.front().transform.hadamard;
  Integer(ar, "hadamard", hadamard, 0, 1);
  for (HeadTable& head : heads) {
    head.transform.hadamard = hadamard;
    head.transform.head_dim = side.codec.head_dim;
  }
  CodeColumn<Chosen>(ar, "chosen", n, ChosenNames(),
                     [&](std::size_t h) -> Chosen& { return heads[h].chosen; });
  CodeColumn<Rounding>(ar, "rounding", n, Roundings(),
                       [&](std::size_t h) -> Rounding& { return heads[h].rounding; });
  Column<float>(ar, "damping", n, [&](std::size_t h) -> float& { return heads[h].damping; });
  Column<std::uint8_t>(ar, "rounds", n, [&](std::size_t h) -> int& { return heads[h].rounds; });
  Stages(ar, side);
  const std::set<std::string> present = PresentArrays(ar, side);
  Rows<double>(
      ar, "dense", present, n, {d, d},
      ZeroRow::kIsNone, [&](std::size_t h) -> auto& { return heads[h].transform.dense; });
  Rows<std::int8_t>(
      ar, "signs", present, n, {d},
      ZeroRow::kIsNone, [&](std::size_t h) -> auto& { return heads[h].transform.signs; });
  Rows<float>(
      ar, "offset", present, n, {d},
      ZeroRow::kIsKept, [&](std::size_t h) -> auto& { return heads[h].transform.offset; });
  Rows<float>(
      ar, "metric", present, n, {d, d},
      ZeroRow::kIsNone, [&](std::size_t h) -> auto& { return heads[h].metric; });
}

}  // namespace

void SideFields(TableArchive& ar, SideTable& side) {
  Integer(ar, "head_dim", side.codec.head_dim, 1, 1024);
  Integer(ar, "bits", side.codec.bits, 2, 4);
  Integer(ar, "block", side.codec.block, 1, 1024);
  Choice(ar, "grid", side.codec.grid, GridKinds());
  Choice(ar, "scale", side.codec.scale, ScaleRules());
  if (ar.loading()) CheckAt(ar, "", side.codec);
  Choice(ar, "family", side.family, Families());
  Integer(ar, "shared", side.shared, 0, 1);
  std::uint64_t num_heads = side.heads.size();
  Integer(ar, "num_heads", num_heads, 1, kMaxHeads);
  side.heads.resize(num_heads);
  side.outcomes.resize(num_heads);
  Heads(ar, side);
  Outcomes(ar, side);
  if (!ar.loading()) return;
  for (std::size_t h = 0; h < num_heads; ++h) CheckAt(ar, "head " + std::to_string(h), side.heads[h]);
}

}  // namespace so4cal
