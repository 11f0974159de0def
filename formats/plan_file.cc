// SPDX-License-Identifier: Apache-2.0
#include "formats/plan_file.h"

#include <set>
#include <utility>

#include "formats/atomic_file.h"
#include "formats/json_text.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

int WholeNumber(const Json& object, const char* name, int low, int high, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer() || found->get<std::int64_t>() < low ||
      found->get<std::int64_t>() > high)
    throw Error(where + ": " + name + " is " + (found == object.end() ? "missing" : found->dump()) +
                ", expected a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return found->get<int>();
}

PlanFile::Row ReadRow(const Json& row, const std::string& where) {
  if (!row.is_object()) throw Error(where + ": is no object, expected one with layer, side, bits and block");
  PlanFile::Row out;
  out.layer = WholeNumber(row, "layer", 0, 1'000'000, where);
  const auto side = row.find("side");
  if (side == row.end() || (*side != "k" && *side != "v"))
    throw Error(where + ": side is " + (side == row.end() ? "missing" : side->dump()) +
                ", expected \"k\" or \"v\"");
  out.side = *side == "k" ? Side::kKey : Side::kValue;
  out.bits = WholeNumber(row, "bits", 2, 4, where);
  out.block = WholeNumber(row, "block", 2, 1024, where);
  return out;
}

}  // namespace

std::string PlanJson(const PlanFile& plan) {
  std::string text = "{\"format\": \"so4cal-plan\", \"version\": " + std::to_string(PlanFile::kVersion) +
                     ", \"budget\": " + JsonNumber(plan.budget) +
                     ", \"bits_per_value\": " + JsonNumber(plan.bits_per_value) +
                     ", \"error\": " + JsonString(plan.error, "plan") + ",\n \"sides\": [";
  for (const PlanFile::Row& row : plan.rows)
    text += std::string(&row == &plan.rows[0] ? "\n" : ",\n") + "  {\"layer\": " + std::to_string(row.layer) +
            ", \"side\": \"" + SideName(row.side) + "\", \"bits\": " + std::to_string(row.bits) +
            ", \"block\": " + std::to_string(row.block) +
            ", \"bits_per_value\": " + JsonNumber(row.bits_per_value) +
            ", \"error\": " + JsonNumber(row.error) + ", \"logit_error\": " + JsonNumber(row.logit_error) +
            "}";
  return text + "\n ]}\n";
}

PlanFile ReadPlanFile(const std::filesystem::path& path) {
  const std::string where = path.string();
  const Json json = ParseJson(ReadFileBytes(path), where);
  if (!json.is_object() || !json.contains("format") || json["format"] != "so4cal-plan")
    throw Error(where +
                ": no plan, expected JSON with \"format\": \"so4cal-plan\" as 'so4cal plan -o' writes it");
  WholeNumber(json, "version", PlanFile::kVersion, PlanFile::kVersion, where);
  const auto sides = json.find("sides");
  if (sides == json.end() || !sides->is_array()) throw Error(where + ": has no list `sides`");
  PlanFile plan;
  std::set<std::pair<int, Side>> seen;
  for (const Json& row : *sides) {
    const std::string of_row = where + ": sides[" + std::to_string(plan.rows.size()) + "]";
    plan.rows.push_back(ReadRow(row, of_row));
    if (!seen.emplace(plan.rows.back().layer, plan.rows.back().side).second)
      throw Error(of_row + ": layer " + std::to_string(plan.rows.back().layer) + " " +
                  SideName(plan.rows.back().side) + " is there twice");
  }
  if (plan.rows.empty()) throw Error(where + ": has no sides, expected one entry for every layer and side");
  return plan;
}

}  // namespace so4cal
