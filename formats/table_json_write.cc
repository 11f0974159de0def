// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "formats/json_text.h"
#include "formats/table_json.h"
#include "formats/table_schema.h"

namespace so4cal {
namespace {

// Arrays of at most this many numbers stay on one line, whatever their rank.
constexpr std::uint64_t kNumbersPerLine = 8;

std::string Indent(int depth) { return std::string(static_cast<std::size_t>(depth), ' '); }

template <class T>
void AppendArray(std::string& out, const T* values, std::span<const std::uint64_t> shape, int depth) {
  const std::uint64_t inner = NumElements({shape.begin() + 1, shape.end()});
  const bool one_line = shape.size() == 1 || inner * shape.front() <= kNumbersPerLine;
  out += '[';
  for (std::uint64_t i = 0; i < shape.front(); ++i) {
    if (i > 0) out += one_line ? ", " : ",";
    if (!one_line) out.append("\n").append(Indent(depth + 1));
    if (shape.size() == 1)
      out += JsonNumber(values[i]);
    else
      AppendArray(out, values + i * inner, shape.subspan(1), depth + 1);
  }
  if (!one_line) out.append("\n").append(Indent(depth));
  out += ']';
}

class JsonWriter final : public TableArchive {
 public:
  JsonWriter(std::string file, std::string path, std::string& out, int depth, const ArrayStore& store)
      : TableArchive(false, std::move(file), std::move(path)), out_(out), depth_(depth), store_(store) {}

  // The braces of this group around what `fields` writes.
  void WriteObject(const std::function<void(TableArchive&)>& fields) {
    out_ += '{';
    fields(*this);
    if (!first_) out_.append("\n").append(Indent(depth_ - 1));
    out_ += '}';
  }

 private:
  std::string Quoted(const std::string& name, const std::string& text) const {
    return JsonString(text, "'" + file() + "': " + PathOf(name));
  }

  void Member(const std::string& name) {
    out_.append(first_ ? "\n" : ",\n").append(Indent(depth_)).append(Quoted(name, name)).append(": ");
    first_ = false;
  }

  void DoText(const std::string& name, std::string& value) override {
    Member(name);
    out_ += Quoted(name, value);
  }

  void DoNumbers(const std::string& name, std::vector<std::uint64_t>& values, bool scalar) override {
    Member(name);
    if (scalar) {
      out_ += JsonNumber(values.front());
    } else {
      AppendArray(out_, values.data(), std::vector<std::uint64_t>{values.size()}, depth_);
    }
  }

  void DoArray(const std::string& name, ArrayRef values, const Shape& shape, const Legend& columns) override {
    const bool is_large =
        std::find(std::begin(kLargeArrays), std::end(kLargeArrays), name) != std::end(kLargeArrays);
    Member(name);
    if (store_ && is_large) {
      out_ += Quoted(name, store_(PathOf(name), values, shape));
      return;
    }
    if (!columns.empty())
      out_.append("{\"columns\": ").append(Quoted(name, LegendText(columns))).append(", \"rows\": ");
    std::visit([&](const auto* v) { AppendArray(out_, v->data(), shape, depth_); }, values);
    if (!columns.empty()) out_ += '}';
  }

  void DoCodes(const std::string& name, std::vector<std::uint8_t>& codes, const Legend& legend) override {
    Member(name);
    out_ += '[';
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto row =
          std::find_if(legend.begin(), legend.end(), [&](const auto& r) { return r.first == codes[i]; });
      if (row == legend.end()) Fail(name, "has a code without a name");
      out_.append(i == 0 ? "" : ", ").append(Quoted(name, row->second));
    }
    out_ += ']';
  }

  void DoGroup(const std::string& name, const std::function<void(TableArchive&)>& fields) override {
    Member(name);
    JsonWriter child(file(), PathOf(name), out_, depth_ + 1, store_);
    child.WriteObject(fields);
  }

  bool DoHas(const std::string&) const override { return true; }
  std::vector<std::string> DoNames() const override { return {}; }

  std::string& out_;
  int depth_;  // of the members
  const ArrayStore& store_;
  bool first_ = true;
};

}  // namespace

std::string TableToJson(const RotationTable& table, const std::string& where, const ArrayStore& store) {
  std::string out;
  JsonWriter writer(where, "", out, 1, store);
  RotationTable fields = table;
  writer.WriteObject([&](TableArchive& root) { TableFields(root, fields); });
  return out + "\n";
}

}  // namespace so4cal
