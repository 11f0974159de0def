// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace so4cal {

// The values of one array field. On loading the archive resizes the vector, after it has compared the shape.
using ArrayRef = std::variant<std::vector<std::uint8_t>*, std::vector<std::int8_t>*,
                              std::vector<std::uint64_t>*, std::vector<float>*, std::vector<double>*>;
using Shape = std::vector<std::uint64_t>;
inline constexpr std::uint64_t kAnyExtent = ~std::uint64_t{0};  // first axis only, on loading
// What the values of an array of codes, or the columns of an array, are called.
using Legend = std::vector<std::pair<std::uint8_t, std::string>>;

// One group of fields in a file, being read or written. A format implements the seven Do... functions; the
// fields themselves are listed once, in table_schema.cc, for every format and for both directions: on saving
// the arguments are written, on loading they are filled.
// Every failure throws Error "'file': /path/of/field: expected, found".
class TableArchive {
 public:
  TableArchive(bool loading, std::string file, std::string path)
      : loading_(loading), file_(std::move(file)), path_(std::move(path)) {}
  virtual ~TableArchive() = default;
  TableArchive(const TableArchive&) = delete;
  TableArchive& operator=(const TableArchive&) = delete;

  bool loading() const { return loading_; }
  const std::string& file() const { return file_; }
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  [[noreturn]] void Fail(const std::string& name, const std::string& problem) const;

  void Text(const std::string& name, std::string& value);
  void Number(const std::string& name, std::uint64_t& value);
  // A short list, of any length up to kMaxNumbers.
  void Numbers(const std::string& name, std::vector<std::uint64_t>& values);
  // Row-major. Floating-point values must be finite; with `columns` (names of the last axis) NaN means not
  // measured.
  void Array(const std::string& name, ArrayRef values, Shape shape, const Legend& columns = {});
  // One code of `legend` per entry; the number of entries is given by codes.size().
  void Codes(const std::string& name, std::vector<std::uint8_t>& codes, const Legend& legend);
  // On loading every member of the group must have been asked for by `fields`, or the group is refused.
  void Group(const std::string& name, const std::function<void(TableArchive&)>& fields);
  // The fields of this group itself, with the same check.
  void Run(const std::function<void(TableArchive&)>& fields);

  bool Has(const std::string& name) const { return DoHas(name); }  // loading only
  std::vector<std::string> Names() const { return DoNames(); }     // loading only; any order

  static constexpr std::size_t kMaxNumbers = 64;
  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 24;

 protected:
  virtual void DoText(const std::string& name, std::string& value) = 0;
  virtual void DoNumbers(const std::string& name, std::vector<std::uint64_t>& values, bool scalar) = 0;
  virtual void DoArray(const std::string& name, ArrayRef values, const Shape& shape,
                       const Legend& columns) = 0;
  virtual void DoCodes(const std::string& name, std::vector<std::uint8_t>& codes, const Legend& legend) = 0;
  virtual void DoGroup(const std::string& name, const std::function<void(TableArchive&)>& fields) = 0;
  virtual bool DoHas(const std::string& name) const = 0;
  virtual std::vector<std::string> DoNames() const = 0;

  const std::string& path() const { return path_; }

 private:
  void Visit(const std::string& name);

  bool loading_;
  std::string file_;
  std::string path_;  // "" for the root
  std::set<std::string> visited_;
};

// "[3, 64]"
std::string ShapeText(const Shape& shape);
// Whether `found` is what `expected` asks for.
bool ShapeFits(const Shape& expected, const Shape& found);
// Product of the extents; Error-free callers have checked it against the bytes that are there.
std::uint64_t NumElements(const Shape& shape);
// "0 nearest, 1 feedback, 2 refined"
std::string LegendText(const Legend& legend);

}  // namespace so4cal
