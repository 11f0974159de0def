// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
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

double Rounded(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return std::strtod(text, nullptr);
}

// More digits than the page shows cost megabytes where a model has hundreds of heads.
void RoundAll(Json& json) {
  if (json.is_number_float()) json = Rounded(json.get<double>(), 6);
  if (json.is_structured())
    for (Json& child : json) RoundAll(child);
}

Json ShortNumbers(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float v : values) list.push_back(Rounded(static_cast<double>(v), 3));
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
  RoundAll(data["report"]);
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
