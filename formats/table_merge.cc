// SPDX-License-Identifier: Apache-2.0
#include "formats/table_merge.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr char kNothing[] = "none";

class Differences {
 public:
  void Compare(const std::string& what, const std::string& first, const std::string& second) {
    if (first != second)
      found_.push_back({what, first.empty() ? kNothing : first, second.empty() ? kNothing : second});
  }
  void Compare(const std::string& what, std::uint64_t first, std::uint64_t second) {
    Compare(what, std::to_string(first), std::to_string(second));
  }
  std::vector<TableDifference> Take() { return std::move(found_); }

 private:
  std::vector<TableDifference> found_;
};

// "k/bits" -> "3", for every value that is no object.
void AddLeaves(const nlohmann::json& value, const std::string& path,
               std::map<std::string, std::string>& leaves) {
  if (!value.is_object()) {
    leaves[path] = value.dump();
    return;
  }
  for (const auto& [name, member] : value.items())
    AddLeaves(member, path.empty() ? name : path + '/' + name, leaves);
}

std::map<std::string, std::string> OptionLeaves(const std::string& options_json) {
  std::map<std::string, std::string> leaves;
  const auto json = nlohmann::json::parse(options_json, nullptr, false);
  if (json.is_object())
    AddLeaves(json, "", leaves);
  else
    leaves["as a whole"] = options_json;
  return leaves;
}

void CompareOptions(const RotationTable& a, const RotationTable& b, Differences& out) {
  auto first = OptionLeaves(a.options_json), second = OptionLeaves(b.options_json);
  std::set<std::string> names;
  for (const auto& [name, value] : first) names.insert(name);
  for (const auto& [name, value] : second) names.insert(name);
  for (const std::string& name : names) out.Compare("option " + name, first[name], second[name]);
}

std::string RangesText(const TokenSplit& split) {
  std::string text;
  for (const auto* ranges : {&split.fit, &split.validation, &split.test}) {
    text += text.empty() ? "" : " / ";
    for (const TokenRange& r : *ranges)
      text += '[' + std::to_string(r.begin) + ", " + std::to_string(r.end) + ')';
  }
  return text;
}

std::string LayersText(std::vector<std::uint64_t> layers) {
  std::string text;
  for (const std::uint64_t layer : layers) text += (text.empty() ? "" : ",") + std::to_string(layer);
  return text;
}

void CompareDumps(const RotationTable& a, const RotationTable& b, Differences& out) {
  out.Compare("number of dumps", a.dumps.size(), b.dumps.size());
  for (std::size_t i = 0; i < std::min(a.dumps.size(), b.dumps.size()); ++i) {
    const DumpRecord &first = a.dumps[i], &second = b.dumps[i];
    out.Compare("dump", first.name, second.name);
    if (first.name != second.name) continue;
    out.Compare("bytes of dump " + first.name, first.size_bytes, second.size_bytes);
    out.Compare("tokens of dump " + first.name, first.num_tokens, second.num_tokens);
    if (first.num_tokens == second.num_tokens)
      out.Compare("split of dump " + first.name, RangesText(first.split), RangesText(second.split));
  }
  out.Compare("layers of the dumps", LayersText(a.dump_layers), LayersText(b.dump_layers));
}

std::string ListText(const std::vector<int>& layers) {
  std::string text = layers.size() == 1 ? "layer " : "layers ";
  for (std::size_t i = 0; i < layers.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(layers[i]);
  return text;
}

void CheckSameFit(const std::vector<TablePart>& parts) {
  for (const TablePart& part : parts) {
    const auto differences = FitDifferences(parts.front().table, part.table);
    if (!differences.empty())
      throw Error("'" + parts.front().name + "' and '" + part.name + "' are not parts of one fit: " +
                  DifferencesText(differences, "'" + parts.front().name + "'", "'" + part.name + "'") +
                  "; fit one of them again with the options and dumps of the other");
  }
}

void CheckNoLayerTwice(const std::vector<TablePart>& parts) {
  std::map<int, const TablePart*> owners;
  std::map<std::pair<const TablePart*, const TablePart*>, std::vector<int>> twice;
  for (const TablePart& part : parts)
    for (const LayerTable& layer : part.table.layers)
      if (const auto [owner, added] = owners.emplace(layer.layer, &part); !added)
        twice[{owner->second, &part}].push_back(layer.layer);
  if (twice.empty()) return;
  const auto& [pair, layers] = *twice.begin();
  throw Error(ListText(layers) + ": in '" + pair.first->name + "' and again in '" + pair.second->name +
              "', expected each layer in one part; leave one of them out");
}

void CheckComplete(const RotationTable& table, const std::vector<int>& layers) {
  std::vector<int> missing, others;
  for (const int layer : layers)
    if (table.FindLayer(layer) == nullptr) missing.push_back(layer);
  for (const LayerTable& layer : table.layers)
    if (std::ranges::find(layers, layer.layer) == layers.end()) others.push_back(layer.layer);
  if (!missing.empty())
    throw Error(ListText(missing) +
                ": in none of the parts; give the parts that have them, or say with --layers "
                "which layers the table is to have");
  if (!others.empty())
    throw Error(ListText(others) +
                ": in the parts, but --layers does not ask for them; leave those parts out");
}

}  // namespace

std::vector<TableDifference> FitDifferences(const RotationTable& first, const RotationTable& second) {
  Differences out;
  CompareOptions(first, second, out);
  out.Compare("seed", first.seed, second.seed);
  CompareDumps(first, second, out);
  out.Compare("model", first.model, second.model);
  out.Compare("layers of the model", static_cast<std::uint64_t>(first.num_model_layers),
              static_cast<std::uint64_t>(second.num_model_layers));
  out.Compare("version of so4cal", first.tool_version, second.tool_version);
  out.Compare("SIMD target", first.simd_target, second.simd_target);
  return out.Take();
}

std::string DifferencesText(const std::vector<TableDifference>& differences, const std::string& first,
                            const std::string& second) {
  std::string text;
  for (const TableDifference& d : differences)
    text += (text.empty() ? "" : "; ") + d.what + ": " + d.first + " in " + first + ", " + d.second + " in " +
            second;
  return text;
}

RotationTable MergeTables(std::vector<TablePart> parts, const std::vector<int>& layers) {
  if (parts.empty()) throw Error("expected at least one part, found none");
  CheckSameFit(parts);
  CheckNoLayerTwice(parts);
  RotationTable merged = std::move(parts.front().table);
  for (std::size_t i = 1; i < parts.size(); ++i)
    std::ranges::move(parts[i].table.layers, std::back_inserter(merged.layers));
  std::ranges::sort(merged.layers, {}, &LayerTable::layer);
  CheckComplete(merged, layers);
  merged.Check();
  return merged;
}

}  // namespace so4cal
