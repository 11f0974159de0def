// SPDX-License-Identifier: Apache-2.0
#include "formats/table_archive.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "lib/error.h"

namespace so4cal {

void TableArchive::Fail(const std::string& name, const std::string& problem) const {
  throw Error("'" + file_ + "': " + (name.empty() ? (path_.empty() ? "/" : path_) : PathOf(name)) + ": " +
              problem);
}

void TableArchive::Visit(const std::string& name) {
  visited_.insert(name);
  if (loading_ && !DoHas(name))
    Fail(name, "missing; the file is damaged or was edited: fit or export it again");
}

void TableArchive::Text(const std::string& name, std::string& value) {
  Visit(name);
  DoText(name, value);
}

void TableArchive::Number(const std::string& name, std::uint64_t& value) {
  Visit(name);
  std::vector<std::uint64_t> values{value};
  DoNumbers(name, values, true);
  value = values.front();
}

void TableArchive::Numbers(const std::string& name, std::vector<std::uint64_t>& values) {
  Visit(name);
  DoNumbers(name, values, false);
}

void TableArchive::Array(const std::string& name, ArrayRef values, Shape shape, const Legend& columns) {
  Visit(name);
  if (!loading_ && shape.front() == kAnyExtent)
    shape.front() = std::visit([](const auto* v) { return v->size(); }, values) /
                    NumElements({shape.begin() + 1, shape.end()});
  DoArray(name, values, shape, columns);
  const auto check_finite = [&](const auto* v) {
    using T = typename std::remove_cvref_t<decltype(*v)>::value_type;
    if constexpr (std::is_floating_point_v<T>)
      for (std::size_t i = 0; i < v->size(); ++i)
        if (std::isinf((*v)[i]) || (columns.empty() && std::isnan((*v)[i])))
          Fail(name, "value " + std::to_string(i) + " (row-major) of " + ShapeText(shape) + " is not finite");
  };
  if (loading_) std::visit(check_finite, values);
}

void TableArchive::Codes(const std::string& name, std::vector<std::uint8_t>& codes, const Legend& legend) {
  Visit(name);
  DoCodes(name, codes, legend);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    bool known = false;
    for (const auto& row : legend) known = known || row.first == codes[i];
    if (!known)
      Fail(name, "head " + std::to_string(i) + " has code " + std::to_string(codes[i]) +
                     ", expected one of " + LegendText(legend));
  }
}

void TableArchive::Group(const std::string& name, const std::function<void(TableArchive&)>& fields) {
  Visit(name);
  DoGroup(name, [&](TableArchive& group) { group.Run(fields); });
}

void TableArchive::Run(const std::function<void(TableArchive&)>& fields) {
  fields(*this);
  if (!loading_) return;
  for (const std::string& name : DoNames())
    if (!visited_.contains(name))
      Fail(name, "not a field of a rotation table of this version; remove it, or upgrade so4cal");
}

std::string ShapeText(const Shape& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) {
    text += text.empty() ? "[" : ", ";
    text += extent == kAnyExtent ? "any" : std::to_string(extent);
  }
  return text.empty() ? "[]" : text + "]";
}

bool ShapeFits(const Shape& expected, const Shape& found) {
  if (expected.size() != found.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (expected[i] != found[i] && expected[i] != kAnyExtent) return false;
  return true;
}

std::uint64_t NumElements(const Shape& shape) {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : shape) n *= extent;
  return n;
}

std::string LegendText(const Legend& legend) {
  std::string text;
  for (const auto& [code, name] : legend)
    text.append(text.empty() ? "" : ", ").append(std::to_string(code)).append(" ").append(name);
  return text;
}

}  // namespace so4cal
