// SPDX-License-Identifier: Apache-2.0
#include "app/side_options.h"

#include <charconv>
#include <optional>
#include <type_traits>

#include "lib/error.h"

namespace so4cal {
namespace {

template <class T>
T ParseNumber(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error("value is '" + std::string(text) + "', expected a " +
                (std::is_integral_v<T> ? "whole " : "") + "number");
  return value;
}
int ParseWhole(std::string_view text) { return ParseNumber<int>(text); }

template <class T>
std::optional<T> ParseOptional(std::string_view text) {
  if (text == "auto") return {};
  return ParseNumber<T>(text);
}

template <class T>
std::string OptionalText(const std::optional<T>& value) {
  if (!value) return "auto";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, *value);
  return {text, end};
}

// "a dense rotation made elsewhere" is a family of tables, not of fits.
std::string FittedFamilies() {
  std::string all;
  for (const auto& row : Families())
    if (row.value != Family::kDense) all.append(all.empty() ? "" : ", ").append(row.name);
  return all;
}

// clang-format off
constexpr SideOption kSideOptions[] = {
    {"--bits", "Bits per code", [] { return std::string("2, 3, 4"); },
     [](SideOptions& s, std::string_view v) { s.bits = ParseWhole(v); },
     [](const SideOptions& s) { return std::to_string(s.bits); }},
    {"--block", "Channels that share one scale; must divide head_dim",
     [] { return std::string("a number, or auto: the largest power of two <= 32 that fits"); },
     [](SideOptions& s, std::string_view v) { s.block = v == "auto" ? 0 : ParseWhole(v); },
     [](const SideOptions& s) { return s.block == 0 ? std::string("auto") : std::to_string(s.block); }},
    {"--grid", "Levels that a code stands for", [] { return JoinNames(GridKinds()); },
     [](SideOptions& s, std::string_view v) { s.grid = ParseName(GridKinds(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(GridKinds(), s.grid)); }},
    {"--scale", "How the scale of a block is found", [] { return JoinNames(ScaleRules()); },
     [](SideOptions& s, std::string_view v) { s.scale = ParseName(ScaleRules(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(ScaleRules(), s.scale)); }},
    {"--offset", "What is subtracted before rotating", [] { return JoinNames(OffsetRules()); },
     [](SideOptions& s, std::string_view v) { s.offset = ParseName(OffsetRules(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(OffsetRules(), s.offset)); }},
    {"--rounding", "How codes are chosen", [] { return JoinNames(RoundingChoices()); },
     [](SideOptions& s, std::string_view v) { s.rounding = ParseName(RoundingChoices(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(RoundingChoices(), s.rounding)); }},
    {"--damping", "Of feedback and refined rounding, relative to the metric's mean diagonal",
     [] { return std::string("a number, or auto: validation chooses"); },
     [](SideOptions& s, std::string_view v) { s.damping = ParseOptional<double>(v); },
     [](const SideOptions& s) { return OptionalText(s.damping); }},
    {"--rounds", "Of refinement", [] { return std::string("a number, or auto: validation chooses"); },
     [](SideOptions& s, std::string_view v) { s.rounds = ParseOptional<int>(v); },
     [](const SideOptions& s) { return OptionalText(s.rounds); }},
    {"--rotation", "Family of rotations", FittedFamilies,
     [](SideOptions& s, std::string_view v) { s.rotation = ParseName(Families(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(Families(), s.rotation)); }},
    {"--hadamard", "Hadamard transform before the blocks", [] { return JoinNames(HadamardChoices()); },
     [](SideOptions& s, std::string_view v) { s.hadamard = ParseName(HadamardChoices(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(HadamardChoices(), s.hadamard)); }},
    {"--objective", "What the fit lowers", [] { return JoinNames(ObjectiveChoices()); },
     [](SideOptions& s, std::string_view v) { s.objective = ParseName(ObjectiveChoices(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(ObjectiveChoices(), s.objective)); }},
    {"--loss", "Form of the loss", [] { return JoinNames(LossChoices()); },
     [](SideOptions& s, std::string_view v) { s.loss = ParseName(LossChoices(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(LossChoices(), s.loss)); }},
    {"--signs", "Sign patterns before the rotation to choose from on validation tokens; the first is none",
     [] { return std::string("1 to 64"); },
     [](SideOptions& s, std::string_view v) { s.signs = ParseWhole(v); },
     [](const SideOptions& s) { return std::to_string(s.signs); }},
    {"--restarts", "Further fits from random starts to choose from on validation tokens",
     [] { return std::string("0 to 64"); },
     [](SideOptions& s, std::string_view v) { s.restarts = ParseWhole(v); },
     [](const SideOptions& s) { return std::to_string(s.restarts); }},
    {"--share", "Who has one rotation together", [] { return JoinNames(Shares()); },
     [](SideOptions& s, std::string_view v) { s.share = ParseName(Shares(), v, "value"); },
     [](const SideOptions& s) { return std::string(NameOf(Shares(), s.share)); }},
};
// clang-format on

}  // namespace

std::span<const SideOption> SideOptionTable() { return kSideOptions; }

void ApplySideOption(const SideOption& option, std::string_view text, std::array<SideOptions, 2>& sides) {
  if (text.find('=') == std::string_view::npos) {
    for (SideOptions& side : sides) option.set(side, text);
    return;
  }
  bool seen[2] = {false, false};
  for (std::string_view rest = text;;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t index = item.starts_with("k=") ? 0 : 1;
    if (!(item.starts_with("k=") || item.starts_with("v=")) || seen[index])
      throw Error("value is '" + std::string(text) + "', expected one value or k=VALUE,v=VALUE");
    seen[index] = true;
    option.set(sides[index], item.substr(2));
    if (item.size() == rest.size()) return;
    rest.remove_prefix(item.size() + 1);
  }
}

std::string PresetValues(const SideOption& option) {
  std::string text;
  for (const Preset& preset : Presets()) {
    const std::string k = option.get(preset.options.sides[0]), v = option.get(preset.options.sides[1]);
    text +=
        (text.empty() ? "" : "; ") + std::string(preset.name) + ": " + (k == v ? k : "k=" + k + ",v=" + v);
  }
  return text;
}

}  // namespace so4cal
