// SPDX-License-Identifier: Apache-2.0
#include "formats/json_text.h"

#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr int kMaxDepth = 64;

template <class T>
std::string Shortest(T value) {
  SO4CAL_CHECK(!std::isinf(value));
  if (std::isnan(value)) return "null";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0";  // "-0" would be read as an integer
  char text[64];
  const auto result = std::to_chars(text, text + sizeof(text), value);
  return {text, result.ptr};
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the tag.
std::string WithoutTag(const std::string& what) {
  const std::size_t end = what.find("] ");
  return end == std::string::npos ? what : what.substr(end + 2);
}

}  // namespace

std::string JsonNumber(double value) { return Shortest(value); }

std::string JsonNumber(float value) {
  const std::string text = Shortest(value);
  // Readers parse a double first; where that rounds to another float, write the exact value instead.
  if (std::isnan(value) || static_cast<float>(std::strtod(text.c_str(), nullptr)) == value) return text;
  return Shortest(static_cast<double>(value));
}

std::string JsonString(const std::string& text, const std::string& where) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(where + ": text is not valid UTF-8, which JSON needs");
  }
}

nlohmann::ordered_json ParseJson(std::string_view text, const std::string& where) {
  using Event = nlohmann::ordered_json::parse_event_t;
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto check = [&](int depth, Event event, nlohmann::ordered_json& parsed) {
    if (depth > kMaxDepth)
      throw Error(where + ": JSON is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second)
      throw Error(where + ": JSON has the name '" + parsed.get<std::string>() + "' twice in one object");
    return true;
  };
  try {
    return nlohmann::ordered_json::parse(text, check);
  } catch (const nlohmann::json::exception& e) {
    throw Error(where + ": not valid JSON: " + WithoutTag(e.what()));
  }
}

}  // namespace so4cal
