// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "app/report.h"
#include "app/report_assets.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

// Three significant digits: enough for bars, and a model with 640 KV heads stays below 2 MB.
Json ShortNumbers(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float v : values) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", static_cast<double>(v));
    list.push_back(std::strtod(text, nullptr));
  }
  return list;
}

// A "<" inside a script element could end it.
std::string ScriptSafe(const std::string& json) {
  std::string safe;
  for (const char c : json) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

void Put(std::string& page, std::string_view mark, const std::string& text) {
  const std::size_t at = page.find(mark);
  SO4CAL_CHECK(at != std::string::npos);
  page.replace(at, mark.size(), text);
}

}  // namespace

// The JSON report and the channels of its heads, in a page that draws them.
std::string ReportHtml(const Report& report) {
  Json data;
  data["report"] = Json::parse(ReportJson(report));
  data["channels"] = Json::array();
  for (const HeadReport& head : report.heads)
    data["channels"].push_back(
        {{"raw", ShortNumbers(head.channels.raw)}, {"rotated", ShortNumbers(head.channels.rotated)}});
  std::string page = kReportPage;
  Put(page, "/*STYLE*/", kReportStyle);
  Put(page, "/*SCRIPT*/", kReportScript);
  Put(page, "/*DATA*/", ScriptSafe(data.dump(-1, ' ', true)));
  return page;
}

}  // namespace so4cal
