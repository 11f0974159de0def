// SPDX-License-Identifier: Apache-2.0
#include <hwy/highway.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/version.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "app/simd.h"
#include "calib/fit_options.h"
#include "calib/versions.h"
#include "formats/exporters.h"
#include "formats/versions.h"
#include "lib/rotation_table.h"
#include "lib/version.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json TableJson(std::span<const T> rows) {
  Json json;
  for (const T& row : rows) json[std::string(row.name)] = row.summary;
  return json;
}

Json LibrariesJson() {
  std::vector<std::pair<std::string, std::string>> versions = CalibLibraryVersions();
  for (auto& version : FormatsLibraryVersions()) versions.push_back(std::move(version));
  versions.emplace_back("CLI11", CLI11_VERSION);
  versions.emplace_back("Highway", fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH));
  versions.emplace_back("spdlog",
                        fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH));
  Json json;
  for (const auto& [name, version] : versions) json[name] = version;
  return json;
}

Json InfoJson() {
  Json json;
  json["version"] = kVersion;
  json["row_format_version"] = kRowFormatVersion;
  json["table_format_version"] = RotationTable::kFormatVersion;
  json["presets"] = TableJson(Presets());
  json["rotations"] = TableJson(Families());
  json["grids"] = TableJson(GridKinds());
  json["scales"] = TableJson(ScaleRules());
  json["offsets"] = TableJson(OffsetRules());
  json["roundings"] = TableJson(Roundings());
  json["objectives"] = TableJson(Objectives());
  json["losses"] = TableJson(LossChoices());
  json["exporters"] = TableJson(Exporters());
  json["simd_targets"] = SimdTargets();
  json["libraries"] = LibrariesJson();
  return json;
}

std::string InfoText(const Json& info) {
  std::string text;
  for (const auto& [key, value] : info.items()) {
    if (!value.is_structured()) {
      text += fmt::format("{}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
      continue;
    }
    text += key + ":\n";
    for (const auto& [name, what] : value.items())
      text += value.is_array() ? fmt::format("  {}\n", what.get<std::string>())
                               : fmt::format("  {:<14} {}\n", name, what.get<std::string>());
  }
  return text;
}

}  // namespace

void AddInfoCommand(CLI::App& app, CommandRun& run) {
  auto json = std::make_shared<bool>(false);
  CLI::App* cmd = app.add_subcommand("info", "Versions, and every choice that this build knows");
  cmd->add_flag("--json", *json, "For machines");
  cmd->callback([json, &run] {
    run = [json] {
      const Json info = InfoJson();
      fmt::print("{}", *json ? info.dump(1) + '\n' : InfoText(info));
      return kExitDone;
    };
  });
}

}  // namespace so4cal
