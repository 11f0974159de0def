// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "formats/hdf5_handle.h"
#include "formats/table_hdf5.h"
#include "formats/table_hdf5_types.h"
#include "formats/table_schema.h"

namespace so4cal {
namespace {

// Deflate's best case. A dataset that claims more is damaged, and its size must not be allocated.
constexpr std::uint64_t kMaxCompression = 1032;

const char* ClassName(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned integer" : "signed integer";
    case H5T_FLOAT:
      return "float";
    case H5T_STRING:
      return "string";
    default:
      return "another type";
  }
}

std::string TypeText(hid_t type) {
  return std::string(ClassName(type)) + " of " + std::to_string(H5Tget_size(type)) + " bytes";
}

Shape ShapeOf(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  return {extents.begin(), extents.end()};
}

class Hdf5Reader final : public TableArchive {
 public:
  Hdf5Reader(std::string file, std::string path, hid_t group)
      : TableArchive(true, std::move(file), std::move(path)), group_(group) {}

 private:
  template <class T>
  T Checked(T result, const std::string& name, const char* problem) const {
    if (result < 0) Fail(name, problem + (Hdf5Reason().empty() ? "" : " (HDF5: " + Hdf5Reason() + ")"));
    return result;
  }

  Hid OpenAttribute(const std::string& name) const {
    return Hid(Checked(H5Aopen(group_, name.c_str(), H5P_DEFAULT), name, "expected an attribute"), H5Aclose);
  }

  void DoText(const std::string& name, std::string& value) override {
    const Hid attribute = OpenAttribute(name);
    value = ReadText(attribute.get(), name);
  }

  std::string ReadText(hid_t attribute, const std::string& name) const {
    const Hid type(Checked(H5Aget_type(attribute), name, "unreadable type"), H5Tclose);
    const Hid space(Checked(H5Aget_space(attribute), name, "unreadable shape"), H5Sclose);
    if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1)
      Fail(name,
           "expected one string, found " + TypeText(type.get()) + " " + ShapeText(ShapeOf(space.get())));
    return H5Tis_variable_str(type.get()) > 0 ? ReadVariableText(attribute, name, space.get())
                                              : ReadFixedText(attribute, name, type.get());
  }

  // What h5py writes when a table is edited by hand.
  std::string ReadVariableText(hid_t attribute, const std::string& name, hid_t space) const {
    const Hid memory(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(memory.get(), H5T_VARIABLE);
    const Hid stored(Checked(H5Aget_type(attribute), name, "unreadable type"), H5Tclose);
    H5Tset_cset(memory.get(), H5Tget_cset(stored.get()));
    char* text = nullptr;
    Checked(H5Aread(attribute, memory.get(), &text), name, "unreadable");
    const std::string value = text == nullptr ? "" : text;
    H5Dvlen_reclaim(memory.get(), space, H5P_DEFAULT, &text);
    return value;
  }

  std::string ReadFixedText(hid_t attribute, const std::string& name, hid_t type) const {
    const std::size_t size = H5Tget_size(type);
    if (size > kMaxTextBytes)
      Fail(name, "claims " + std::to_string(size) + " bytes of text, expected at most 16 MiB");
    std::string value(size, '\0');
    Checked(H5Aread(attribute, type, value.data()), name, "unreadable");
    return value.substr(0, value.find('\0'));
  }

  void DoNumbers(const std::string& name, std::vector<std::uint64_t>& values, bool scalar) override {
    const Hid attribute = OpenAttribute(name);
    const Hid type(Checked(H5Aget_type(attribute.get()), name, "unreadable type"), H5Tclose);
    const Hid space(Checked(H5Aget_space(attribute.get()), name, "unreadable shape"), H5Sclose);
    const Shape shape = ShapeOf(space.get());
    const std::uint64_t count = NumElements(shape);
    if (H5Tget_class(type.get()) != H5T_INTEGER || shape.size() > 1 || (scalar && count != 1) ||
        count > kMaxNumbers)
      Fail(name, std::string("expected ") + (scalar ? "one integer" : "a list of at most 64 integers") +
                     ", found " + TypeText(type.get()) + " " + ShapeText(shape));
    std::vector<std::int64_t> signed_values(count);  // a signed negative is refused, not wrapped
    values.resize(count);
    if (count == 0) return;
    const bool is_signed = H5Tget_sign(type.get()) != H5T_SGN_NONE;
    Checked(is_signed ? H5Aread(attribute.get(), H5T_NATIVE_INT64, signed_values.data())
                      : H5Aread(attribute.get(), H5T_NATIVE_UINT64, values.data()),
            name, "unreadable");
    if (!is_signed) return;
    for (std::size_t i = 0; i < count; ++i) {
      if (signed_values[i] < 0) Fail(name, "is " + std::to_string(signed_values[i]) + ", expected 0 or more");
      values[i] = static_cast<std::uint64_t>(signed_values[i]);
    }
  }

  void DoArray(const std::string& name, ArrayRef values, const Shape& shape, const Legend& columns) override {
    ReadDataset(name, values, shape, kColumnsAttribute, columns);
  }

  void DoCodes(const std::string& name, std::vector<std::uint8_t>& codes, const Legend& legend) override {
    ReadDataset(name, &codes, {codes.size()}, kCodesAttribute, legend);
  }

  void ReadDataset(const std::string& name, ArrayRef values, const Shape& expected, const char* legend_name,
                   const Legend& legend) const {
    const Hid dataset(Checked(H5Dopen2(group_, name.c_str(), H5P_DEFAULT), name, "expected a dataset"),
                      H5Dclose);
    const Hid type(Checked(H5Dget_type(dataset.get()), name, "unreadable type"), H5Tclose);
    const hid_t stored = std::visit([](const auto* v) { return StoredType(*v); }, values);
    if (H5Tequal(type.get(), stored) <= 0)
      Fail(name, "expected little-endian " + TypeText(stored) + ", found " + TypeText(type.get()));
    const Hid space(Checked(H5Dget_space(dataset.get()), name, "unreadable shape"), H5Sclose);
    const Shape shape = ShapeOf(space.get());
    if (!ShapeFits(expected, shape))
      Fail(name, "expected shape " + ShapeText(expected) + ", found " + ShapeText(shape));
    const auto count = static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space.get()));
    if (count / kMaxCompression > H5Dget_storage_size(dataset.get()))
      Fail(name, "holds fewer bytes than its shape " + ShapeText(shape) + " needs: the file is damaged");
    const auto read = [&](auto* v) -> herr_t {
      v->resize(count);
      if (count == 0) return 0;
      return H5Dread(dataset.get(), MemoryType(*v), H5S_ALL, H5S_ALL, H5P_DEFAULT, v->data());
    };
    Checked(std::visit(read, values), name, "unreadable");
    if (!legend.empty()) CheckLegend(dataset.get(), name, legend_name, LegendText(legend));
  }

  void CheckLegend(hid_t dataset, const std::string& name, const char* legend_name,
                   const std::string& expected) const {
    const Hid attribute(
        Checked(H5Aopen(dataset, legend_name, H5P_DEFAULT), name + " attribute " + legend_name,
                "missing; the file is damaged or was edited"),
        H5Aclose);
    const std::string found = ReadText(attribute.get(), name + " attribute " + legend_name);
    if (found != expected)
      Fail(name, "expected '" + expected + "' in attribute " + legend_name + ", found '" + found + "'");
  }

  void DoGroup(const std::string& name, const std::function<void(TableArchive&)>& fields) override {
    const Hid group(Checked(H5Gopen2(group_, name.c_str(), H5P_DEFAULT), name, "expected a group"), H5Gclose);
    Hdf5Reader child(file(), PathOf(name), group.get());
    fields(child);
  }

  bool DoHas(const std::string& name) const override {
    return H5Aexists(group_, name.c_str()) > 0 || H5Lexists(group_, name.c_str(), H5P_DEFAULT) > 0;
  }

  std::vector<std::string> DoNames() const override {
    std::vector<std::string> names;
    const auto add_link = [](hid_t, const char* name, const H5L_info_t* info, void* out) -> herr_t {
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return info->type == H5L_TYPE_HARD ? 0 : 1;  // soft and external links lead out of the file
    };
    const auto add_attribute = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return 0;
    };
    const herr_t links = H5Literate(group_, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_link, &names);
    if (links > 0) Fail(names.back(), "is a soft or external link, expected the object itself");
    Checked(links, "", "unreadable list of members");
    Checked(H5Aiterate2(group_, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_attribute, &names), "",
            "unreadable list of attributes");
    return names;
  }

  hid_t group_;
};

}  // namespace

RotationTable TableFromHdf5(const std::filesystem::path& path) {
  const QuietHdf5Errors quiet;
  const std::string what =
      "can't read '" + path.string() + "' as HDF5; it may be truncated: fit or copy it again";
  const Hid file(H5Check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), what), H5Fclose);
  const Hid root(H5Check(H5Gopen2(file.get(), "/", H5P_DEFAULT), what), H5Gclose);
  Hdf5Reader reader(path.string(), "", root.get());
  RotationTable table;
  TableFields(reader, table);
  return table;
}

}  // namespace so4cal
