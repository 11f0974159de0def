// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "calib/split.h"
#include "lib/error.h"

namespace so4cal {

// Runs `parse` and returns the reason of the Error it throws, empty when it throws none: the form that
// CLI11's checks take.
template <class Parse>
std::string ReasonOf(const Parse& parse) {
  try {
    parse();
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// CLI11 turns -1 into 2^64 - 1 for unsigned fields; this refuses it, and what does not fit 64 bits.
inline CLI::Validator WholeNumber() {
  const auto check = [](std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return "";
    return "value is '" + text + "', expected a whole number from 0";
  };
  return CLI::Validator(check, "");
}

// "70,15,15" -> `base` with these percentages. Throws UsageError; SplitOptions::Check() judges the numbers.
inline SplitOptions ParseSplit(std::string_view text, SplitOptions base) {
  int* const parts[] = {&base.fit_percent, &base.validation_percent, &base.test_percent};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, *parts[i]);
    const bool separated = i == 2 ? next == end : next != end && *next == ',';
    if (error != std::errc() || !separated)
      throw UsageError("value is '" + std::string(text) + "', expected three whole numbers such as 70,15,15");
    at = next + 1;
  }
  return base;
}

}  // namespace so4cal
