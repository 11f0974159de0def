// SPDX-License-Identifier: Apache-2.0
#include "formats/table_schema.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include "formats/table_fields.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr char kFormatName[] = "so4cal-table";
constexpr std::uint64_t kMaxLayers = 1'000'000;

void Constant(TableArchive& ar, const std::string& name, const std::string& expected) {
  std::string word = expected;
  ar.Text(name, word);
  if (word != expected) ar.Fail(name, "is '" + word + "', expected '" + expected + "'");
}

// Named numbers, in the map's order.
void Counts(TableArchive& ar, std::map<std::string, std::uint64_t>& counts) {
  if (ar.loading())
    for (const std::string& name : ar.Names()) counts[name] = 0;
  for (auto& [name, count] : counts) ar.Number(name, count);
}

// Numbered groups; `count` of them on saving, on loading 0, 1, 2, ... without a gap.
template <class T, class Fields>
void NumberedGroups(TableArchive& parent, const std::string& name, std::vector<T>& items, Fields fields) {
  parent.Group(name, [&](TableArchive& ar) {
    if (ar.loading()) items.resize(ar.Names().size());
    for (std::size_t i = 0; i < items.size(); ++i)
      ar.Group(std::to_string(i), [&](TableArchive& item) { fields(item, items[i]); });
  });
}

void LayerFields(TableArchive& ar, LayerTable& layer, std::size_t num_dumps) {
  for (const Side s : kSides)
    ar.Group(SideName(s), [&](TableArchive& side) { SideFields(side, layer.side(s)); });
  NumberedGroups(ar, "hashes", layer.hashes,
                 [](TableArchive& dump, std::map<std::string, std::string>& hashes) {
                   if (dump.loading())
                     for (const std::string& name : dump.Names()) hashes[name] = "";
                   for (auto& [name, hash] : hashes) dump.Text(name, hash);
                 });
  if (layer.hashes.size() != num_dumps)
    ar.Fail("hashes", "has " + std::to_string(layer.hashes.size()) + " dumps, expected " +
                          std::to_string(num_dumps) + " as in /dumps");
  ar.Group("counts", [&](TableArchive& counts) { Counts(counts, layer.counts); });
}

int LayerId(const TableArchive& ar, const std::string& name) {
  int id = -1;
  const auto result = std::from_chars(name.data(), name.data() + name.size(), id);
  if (result.ec != std::errc() || id < 0 || std::to_string(id) != name ||
      static_cast<std::uint64_t>(id) >= kMaxLayers)
    ar.Fail(name, "expected a layer number such as 0 or 17");
  return id;
}

void Layers(TableArchive& root, RotationTable& table) {
  root.Group("layers", [&](TableArchive& ar) {
    if (ar.loading()) {
      for (const std::string& name : ar.Names()) table.layers.emplace_back().layer = LayerId(ar, name);
      std::sort(table.layers.begin(), table.layers.end(),
                [](const LayerTable& a, const LayerTable& b) { return a.layer < b.layer; });
    }
    if (table.layers.empty()) ar.Fail("", "expected at least one layer, found none");
    for (LayerTable& layer : table.layers)
      ar.Group(std::to_string(layer.layer),
               [&](TableArchive& fields) { LayerFields(fields, layer, table.dumps.size()); });
  });
}

std::vector<std::uint64_t> Flatten(const std::vector<TokenRange>& ranges) {
  std::vector<std::uint64_t> flat;
  for (const TokenRange& r : ranges) flat.insert(flat.end(), {r.begin, r.end});
  return flat;
}

void Ranges(TableArchive& ar, const std::string& name, std::vector<TokenRange>& ranges,
            std::uint64_t num_tokens) {
  std::vector<std::uint64_t> flat = Flatten(ranges);
  ar.Array(name, &flat, {kAnyExtent, 2});
  ranges.clear();
  for (std::size_t i = 0; i < flat.size(); i += 2) {
    const TokenRange range{flat[i], flat[i + 1]};
    const std::uint64_t previous = ranges.empty() ? 0 : ranges.back().end;
    if (range.begin < previous || range.end < range.begin || range.end > num_tokens)
      ar.Fail(name, "range " + std::to_string(i / 2) + " is [" + std::to_string(range.begin) + ", " +
                        std::to_string(range.end) + "), expected ascending ranges within " +
                        std::to_string(num_tokens) + " tokens");
    ranges.push_back(range);
  }
}

void DumpFields(TableArchive& ar, DumpRecord& dump) {
  ar.Text("name", dump.name);
  ar.Number("size_bytes", dump.size_bytes);
  ar.Number("num_tokens", dump.num_tokens);
  Ranges(ar, "fit", dump.split.fit, dump.num_tokens);
  Ranges(ar, "validation", dump.split.validation, dump.num_tokens);
  Ranges(ar, "test", dump.split.test, dump.num_tokens);
}

void CheckFormat(TableArchive& ar) {
  if (ar.loading() && !ar.Has("format"))
    ar.Fail(
        "",
        "this is not a rotation table of so4cal (no field 'format'); a table is what `so4cal fit` writes, "
        "a dump goes where the command asks for DUMP");
  Constant(ar, "format", kFormatName);
  std::uint64_t version = RotationTable::kFormatVersion;
  ar.Number("format_version", version);
  if (version > RotationTable::kFormatVersion)
    ar.Fail("format_version", "is " + std::to_string(version) +
                                  ": written by a newer so4cal, this one reads version " +
                                  std::to_string(RotationTable::kFormatVersion) + ": upgrade so4cal");
  if (version != RotationTable::kFormatVersion) ar.Fail("format_version", "is 0, expected 1");
}

std::uint64_t LargestHeadDim(const RotationTable& table) {
  int largest = 0;
  for (const LayerTable& layer : table.layers)
    for (const SideTable& side : layer.sides) largest = std::max(largest, side.codec.head_dim);
  return static_cast<std::uint64_t>(largest);
}

void RootFields(TableArchive& ar, RotationTable& table) {
  CheckFormat(ar);
  ar.Text("tool_version", table.tool_version);
  std::string convention = kConventionText;  // explains; a later wording is no other format
  ar.Text("convention", convention);
  Constant(ar, "rope", "post");
  std::uint64_t head_dim = LargestHeadDim(table);
  ar.Number("head_dim", head_dim);
  ar.Text("model", table.model);
  Integer(ar, "num_model_layers", table.num_model_layers, 0, kMaxLayers);
  ar.Array("dump_layers", &table.dump_layers, {kAnyExtent});
  ar.Number("seed", table.seed);
  ar.Text("options", table.options_json);
  ar.Text("simd_target", table.simd_target);
  NumberedGroups(ar, "dumps", table.dumps, DumpFields);
  auto totals = ar.loading() ? std::map<std::string, std::uint64_t>{} : table.TotalCounts();
  ar.Group("counts", [&](TableArchive& counts) { Counts(counts, totals); });
  Layers(ar, table);
  if (head_dim != LargestHeadDim(table))
    ar.Fail("head_dim", "is " + std::to_string(head_dim) + ", expected " +
                            std::to_string(LargestHeadDim(table)) + ", the largest of all sides");
  if (totals != table.TotalCounts()) ar.Fail("counts", "expected the sums of the layers' counts");
}

}  // namespace

void TableFields(TableArchive& root, RotationTable& table) {
  root.Run([&](TableArchive& ar) {
    if (!ar.loading()) table.Check();
    RootFields(ar, table);
    if (ar.loading()) CheckAt(ar, "", table);
  });
}

}  // namespace so4cal
