// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace so4cal {

// Numbers as the shortest text that reads back as the same value; "null" for NaN, "-0.0" for minus zero.
// Infinity is a bug.
std::string JsonNumber(double value);
std::string JsonNumber(float value);
inline std::string JsonNumber(std::uint64_t value) { return std::to_string(value); }
inline std::string JsonNumber(std::uint8_t value) { return std::to_string(int{value}); }
inline std::string JsonNumber(std::int8_t value) { return std::to_string(int{value}); }

// With quotes and escapes. Throws Error that starts with `where` when the text is not UTF-8.
std::string JsonString(const std::string& text, const std::string& where);

// Strict: one object or array, no duplicate names, at most 64 levels. Throws Error that starts with `where`
// and has line and column.
nlohmann::ordered_json ParseJson(std::string_view text, const std::string& where);

}  // namespace so4cal
