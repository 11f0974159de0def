// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <type_traits>

#include "formats/json_text.h"
#include "formats/table_json.h"
#include "formats/table_schema.h"

namespace so4cal {
namespace {

using Json = nlohmann::ordered_json;

class JsonReader final : public TableArchive {
 public:
  JsonReader(std::string file, std::string path, const Json& object, const ArrayStore& store)
      : TableArchive(true, std::move(file), std::move(path)), object_(object), store_(store) {}

 private:
  const Json& Member(const std::string& name) const { return object_.at(name); }

  void DoText(const std::string& name, std::string& value) override {
    const Json& member = Member(name);
    if (!member.is_string()) Fail(name, std::string("expected a string, found ") + member.type_name());
    value = member.get<std::string>();
  }

  void DoNumbers(const std::string& name, std::vector<std::uint64_t>& values, bool scalar) override {
    const Json& member = Member(name);
    if (scalar) {
      values = {Number<std::uint64_t>(name, member)};
      return;
    }
    if (!member.is_array() || member.size() > kMaxNumbers)
      Fail(name, std::string("expected a list of at most 64 numbers, found ") + member.type_name() + " of " +
                     std::to_string(member.size()));
    values.clear();
    for (const Json& element : member) values.push_back(Number<std::uint64_t>(name, element));
  }

  template <class T>
  T Number(const std::string& name, const Json& value) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (value.is_null()) return std::numeric_limits<T>::quiet_NaN();
      if (value.is_number()) return static_cast<T>(value.get<double>());
      Fail(name, std::string("expected a number, found ") + value.type_name());
    } else {
      if (!value.is_number_integer())
        Fail(name, std::string("expected an integer, found ") + Describe(value));
      if (value.is_number_unsigned() &&
          value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max()))
        return static_cast<T>(value.get<std::uint64_t>());
      if (!value.is_number_unsigned() && std::is_signed_v<T> &&
          value.get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<T>::min()))
        return static_cast<T>(value.get<std::int64_t>());
      Fail(name, "is " + value.dump() + ", which is out of range");
    }
  }

  static std::string Describe(const Json& value) {
    return value.is_number() ? value.dump() : std::string(value.type_name());
  }

  void DoArray(const std::string& name, ArrayRef values, const Shape& shape, const Legend& columns) override {
    const Json* rows = &Member(name);
    if (store_ && rows->is_string()) {
      const std::string expected = store_(PathOf(name), values, shape);
      if (rows->get<std::string>() != expected)
        Fail(name, "is '" + rows->get<std::string>() + "', expected '" + expected + "'");
      return;
    }
    if (!columns.empty()) rows = &Rows(name, columns);
    const Shape found = ShapeOf(*rows, shape.size());
    if (!ShapeFits(shape, found))
      Fail(name, "expected shape " + ShapeText(shape) + ", found " + ShapeText(found));
    const auto fill = [&](auto* v) {
      v->clear();
      Append(name, *rows, found, *v);
    };
    std::visit(fill, values);
  }

  const Json& Rows(const std::string& name, const Legend& columns) const {
    const Json& member = Member(name);
    if (!member.is_object() || member.size() != 2 || !member.contains("columns") || !member.contains("rows"))
      Fail(name, "expected an object with 'columns' and 'rows'");
    if (member.at("columns") != LegendText(columns))
      Fail(name, "expected the columns '" + LegendText(columns) + "'");
    return member.at("rows");
  }

  // Of the first elements; Append() holds the others to it. An empty array has no inner extents to see: they
  // are taken as expected.
  static Shape ShapeOf(const Json& array, std::size_t rank) {
    Shape shape;
    for (const Json* level = &array; level->is_array() && shape.size() <= rank; level = &level->front()) {
      shape.push_back(level->size());
      if (level->empty()) break;
    }
    if (shape == Shape{0} && rank == 2) shape.push_back(2);  // no token ranges
    return shape;
  }

  template <class T>
  void Append(const std::string& name, const Json& array, std::span<const std::uint64_t> shape,
              std::vector<T>& out) const {
    if (shape.empty()) {
      out.push_back(Number<T>(name, array));
      return;
    }
    if (!array.is_array() || array.size() != shape.front())
      Fail(name, "expected rows of equal length " + std::to_string(shape.front()) + ", found " +
                     Describe(array) + " of " + std::to_string(array.size()));
    for (const Json& element : array) Append(name, element, shape.subspan(1), out);
  }

  void DoCodes(const std::string& name, std::vector<std::uint8_t>& codes, const Legend& legend) override {
    const Json& member = Member(name);
    if (!member.is_array() || member.size() != codes.size())
      Fail(name, "expected a list of " + std::to_string(codes.size()) + " names, found " + Describe(member) +
                     " of " + std::to_string(member.size()));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto row =
          std::find_if(legend.begin(), legend.end(), [&](const auto& r) { return member[i] == r.second; });
      if (row == legend.end())
        Fail(name, "head " + std::to_string(i) + " is " + member[i].dump() + ", expected one of " +
                       LegendText(legend));
      codes[i] = row->first;
    }
  }

  void DoGroup(const std::string& name, const std::function<void(TableArchive&)>& fields) override {
    const Json& member = Member(name);
    if (!member.is_object()) Fail(name, std::string("expected an object, found ") + member.type_name());
    JsonReader child(file(), PathOf(name), member, store_);
    fields(child);
  }

  bool DoHas(const std::string& name) const override { return object_.contains(name); }

  std::vector<std::string> DoNames() const override {
    std::vector<std::string> names;
    for (const auto& item : object_.items()) names.push_back(item.key());
    return names;
  }

  const Json& object_;
  const ArrayStore& store_;
};

}  // namespace

RotationTable TableFromJson(std::string_view text, const std::string& where, const ArrayStore& store) {
  const Json document = ParseJson(text, "'" + where + "'");
  JsonReader reader(where, "", document, store);
  if (!document.is_object())
    reader.Fail("", std::string("expected a JSON object, found ") + document.type_name());
  RotationTable table;
  TableFields(reader, table);
  return table;
}

}  // namespace so4cal
