// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "calib/fit_options.h"

namespace so4cal {

// The options of `fit` that take one value for both sides, or `k=VALUE,v=VALUE`: one row each.
struct SideOption {
  std::string_view name;  // "--grid"; without the dashes, the key in the table's options
  std::string_view summary;
  std::string (*choices)();                                // "symmetric, full, lloyd"
  void (*set)(SideOptions& side, std::string_view value);  // throws Error
  std::string (*get)(const SideOptions& side);             // the word that `set` takes
};
std::span<const SideOption> SideOptionTable();

// Applies "VALUE", "k=VALUE", "v=VALUE" or "k=VALUE,v=VALUE" (either order). Throws Error.
void ApplySideOption(const SideOption& option, std::string_view text, std::array<SideOptions, 2>& sides);

// What the presets set: "best: lloyd; seed: symmetric".
std::string PresetValues(const SideOption& option);

}  // namespace so4cal
