// SPDX-License-Identifier: Apache-2.0
#include "formats/rows_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "formats/hdf5_read.h"
#include "formats/layered_file.h"
#include "lib/error.h"
#include "lib/version.h"

namespace so4cal {
namespace {

constexpr char kFormat[] = "so4cal-rows";
constexpr std::uint64_t kFileVersion = 1;
constexpr std::uint64_t kMaxHeads = 65536;

std::string DatasetPath(int layer, Side side) {
  return "/layers/" + std::to_string(layer) + "/" + SideName(side) + "_rows";
}

void WriteSide(Hdf5FileWriter& file, const std::string& path, const PackedSide& side,
               std::uint64_t num_tokens) {
  SO4CAL_CHECK(side.num_tokens == num_tokens);
  SO4CAL_CHECK(side.rows.size() ==
               static_cast<std::size_t>(side.num_heads) * side.num_tokens * side.codec.row_bytes());
  file.Dataset(path, side.rows,
               {static_cast<hsize_t>(side.num_heads), side.num_tokens, side.codec.row_bytes()});
  file.Number(path, "head_dim", static_cast<std::uint64_t>(side.codec.head_dim));
  file.Number(path, "bits", static_cast<std::uint64_t>(side.codec.bits));
  file.Number(path, "block", static_cast<std::uint64_t>(side.codec.block));
  file.Text(path, "grid", std::string(NameOf(GridKinds(), side.codec.grid)));
  file.Text(path, "scale", std::string(NameOf(ScaleRules(), side.codec.scale)));
  file.Text(path, "table_hash", side.table_hash);
}

std::string RequiredText(hid_t object, const char* name, const std::string& where) {
  const auto text = ReadTextAttribute(object, name, where);
  if (!text) throw Error(where + ": attribute " + name + " is missing, expected a file from 'so4cal encode'");
  return *text;
}

std::uint64_t WholeNumber(hid_t object, const char* name, const std::string& where, std::uint64_t max) {
  const auto numbers = ReadNumberAttribute(object, name, where);
  if (!numbers || numbers->size() != 1)
    throw Error(where + ": attribute " + name + " is missing or a list, expected one number");
  const double value = numbers->front();
  if (!(value >= 0 && value <= static_cast<double>(max)) || value != std::floor(value))
    throw Error(where + ": attribute " + name + " is " + std::to_string(value) +
                ", expected a whole number up to " + std::to_string(max));
  return static_cast<std::uint64_t>(value);
}

void CheckVersion(hid_t root, const char* name, std::uint64_t expected, const std::string& where) {
  const std::uint64_t found = WholeNumber(root, name, where, 1U << 30);
  if (found != expected)
    throw Error(where + ": " + name + " is " + std::to_string(found) + ", expected " +
                std::to_string(expected) + ": made by a newer so4cal?");
}

std::vector<std::uint64_t> SequenceStarts(hid_t file, const std::string& name) {
  const std::string where = name + ": /sequence_starts";
  if (KindOf(file, "/sequence_starts") != ObjectKind::kDataset) throw Error(where + " is missing");
  std::vector<std::uint64_t> starts;
  for (const std::int64_t start : ReadIntegers(file, "/sequence_starts", where)) {
    const bool first = starts.empty();
    if (start < 0 || (first && start != 0) || (!first && static_cast<std::uint64_t>(start) <= starts.back()))
      throw Error(where + " has " + std::to_string(start) + ", expected ascending token indices from 0");
    starts.push_back(static_cast<std::uint64_t>(start));
  }
  if (starts.empty()) throw Error(where + " is empty, expected at least one sequence");
  return starts;
}

std::vector<int> LayerIds(hid_t file, const std::string& name) {
  std::vector<int> layers;
  if (KindOf(file, "/layers") != ObjectKind::kGroup) throw Error(name + ": /layers is missing");
  for (const std::string& link : LinkNames(file, "/layers", name + ": /layers")) {
    int layer = -1;
    const auto [end, error] = std::from_chars(link.data(), link.data() + link.size(), layer);
    if (error != std::errc() || end != link.data() + link.size() || layer < 0 ||
        std::to_string(layer) != link)
      throw Error(name + ": /layers/" + link + ": expected a layer number");
    layers.push_back(layer);
  }
  if (layers.empty()) throw Error(name + ": /layers is empty, expected at least one layer");
  std::sort(layers.begin(), layers.end());
  return layers;
}

// Everything of a side but its rows.
PackedSide Describe(hid_t dataset, const std::string& where) {
  PackedSide side;
  side.codec.head_dim = static_cast<int>(WholeNumber(dataset, "head_dim", where, 1024));
  side.codec.bits = static_cast<int>(WholeNumber(dataset, "bits", where, 4));
  side.codec.block = static_cast<int>(WholeNumber(dataset, "block", where, 1024));
  side.codec.grid = ParseName(GridKinds(), RequiredText(dataset, "grid", where), where + ": grid");
  side.codec.scale = ParseName(ScaleRules(), RequiredText(dataset, "scale", where), where + ": scale");
  side.table_hash = RequiredText(dataset, "table_hash", where);
  try {
    side.codec.Check();
  } catch (const Error& e) {
    throw Error(where + ": " + e.what());
  }
  const std::vector<hsize_t> extents = ExtentsOf(dataset, where);
  if (extents.size() != 3 || extents[0] == 0 || extents[0] > kMaxHeads || extents[1] == 0 ||
      extents[2] != side.codec.row_bytes())
    throw Error(where + ": has extents " + ExtentsText(extents) + ", expected [heads, tokens, " +
                std::to_string(side.codec.row_bytes()) + "] for its codec");
  side.num_heads = static_cast<int>(extents[0]);
  side.num_tokens = extents[1];
  return side;
}

}  // namespace

void WriteRowsFile(const std::filesystem::path& out, const DumpHeader& header,
                   const std::function<PackedSide(int layer, Side side)>& encode) {
  const auto attributes = [](Hdf5FileWriter& file) {
    file.Text("/", "format", kFormat);
    file.Number("/", "version", kFileVersion);
    file.Number("/", "row_format_version", kRowFormatVersion);
    file.Text("/", "tool_version", kVersion);
  };
  WriteLayeredFile(
      out, header, attributes, [&](Hdf5FileWriter& file, const std::string& group, int layer, Side side) {
        WriteSide(file, group + "/" + SideName(side) + "_rows", encode(layer, side), header.num_tokens);
      });
}

struct RowsFile::Impl {
  explicit Impl(const std::filesystem::path& path)
      : name(path.filename().string()), file(OpenHdf5ReadOnly(path)) {}

  std::string Where(int layer, Side side) const { return name + ": " + DatasetPath(layer, side); }

  Hid Open(int layer, Side side) const {
    if (KindOf(file.get(), DatasetPath(layer, side)) != ObjectKind::kDataset)
      throw Error(Where(layer, side) + " is missing, expected packed rows");
    return Hid(
        H5Check(H5Dopen2(file.get(), DatasetPath(layer, side).c_str(), H5P_DEFAULT), Where(layer, side)),
        H5Dclose);
  }

  // Type, filters, shape and token count of one dataset.
  void Check(int layer, Side side) {
    const std::string where = Where(layer, side);
    const Hid dataset = Open(layer, side);
    const PackedSide found = Describe(dataset.get(), where);
    const Hid type(H5Check(H5Dget_type(dataset.get()), where), H5Tclose);
    if (H5Tget_class(type.get()) != H5T_INTEGER || H5Tget_size(type.get()) != 1)
      throw Error(where + ": expected elements of type uint8");
    CheckFilters(dataset.get(), where);
    if (header.num_tokens == 0) header.num_tokens = found.num_tokens;
    if (found.num_tokens != header.num_tokens)
      throw Error(where + ": has " + std::to_string(found.num_tokens) + " tokens, expected " +
                  std::to_string(header.num_tokens) + " as in the first layer");
  }

  QuietHdf5Errors quiet;
  std::string name;
  Hid file;
  DumpHeader header;
};

RowsFile::RowsFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {
  const Hid root(H5Check(H5Gopen2(impl_->file.get(), "/", H5P_DEFAULT), impl_->name), H5Gclose);
  const std::string format = ReadTextAttribute(root.get(), "format", impl_->name).value_or("missing");
  if (format != kFormat)
    throw Error(impl_->name + ": attribute format is " + format + ", expected " + kFormat +
                ": give a file from 'so4cal encode'");
  CheckVersion(root.get(), "version", kFileVersion, impl_->name);
  CheckVersion(root.get(), "row_format_version", kRowFormatVersion, impl_->name);
  impl_->header.model = RequiredText(root.get(), "model", impl_->name);
  if (ReadNumberAttribute(root.get(), "num_layers", impl_->name))
    impl_->header.num_model_layers =
        static_cast<int>(WholeNumber(root.get(), "num_layers", impl_->name, 100000));
  impl_->header.sequence_starts = SequenceStarts(impl_->file.get(), impl_->name);
  impl_->header.layers = LayerIds(impl_->file.get(), impl_->name);
  for (const int layer : impl_->header.layers)
    for (const Side side : kSides) impl_->Check(layer, side);
  if (impl_->header.sequence_starts.back() >= impl_->header.num_tokens)
    throw Error(impl_->name + ": /sequence_starts has " +
                std::to_string(impl_->header.sequence_starts.back()) + ", expected indices of its " +
                std::to_string(impl_->header.num_tokens) + " tokens");
}

RowsFile::~RowsFile() = default;

const DumpHeader& RowsFile::header() const { return impl_->header; }

PackedSide RowsFile::Read(int layer, Side side) const {
  const std::string where = impl_->Where(layer, side);
  const Hid dataset = impl_->Open(layer, side);
  PackedSide packed = Describe(dataset.get(), where);
  packed.rows.resize(static_cast<std::size_t>(packed.num_heads) * packed.num_tokens *
                     packed.codec.row_bytes());
  H5Check(H5Dread(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, packed.rows.data()), where);
  return packed;
}

}  // namespace so4cal
