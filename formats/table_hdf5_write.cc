// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "formats/hdf5_handle.h"
#include "formats/table_hdf5.h"
#include "formats/table_hdf5_types.h"
#include "formats/table_schema.h"

namespace so4cal {
namespace {

// Creation properties of a group or dataset: no times, members in the order in which they were written.
Hid CreationProperties(hid_t kind, const std::string& what) {
  Hid properties(H5Check(H5Pcreate(kind), what), H5Pclose);
  H5Check(H5Pset_obj_track_times(properties.get(), false), what);
  H5Check(H5Pset_attr_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), what);
  if (kind != H5P_DATASET_CREATE)
    H5Check(H5Pset_link_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
            what);
  return properties;
}

class Hdf5Writer final : public TableArchive {
 public:
  Hdf5Writer(std::string file, std::string path, hid_t group)
      : TableArchive(false, std::move(file), std::move(path)), group_(group) {}

 private:
  std::string Where(const std::string& name) const { return "can't write '" + file() + "': " + PathOf(name); }

  void WriteText(hid_t object, const std::string& name, const std::string& value) {
    if (value.find('\0') != std::string::npos || value.size() > kMaxTextBytes)
      Fail(name, "text with a NUL character or above 16 MiB can't be stored");
    const Hid type(H5Check(H5Tcopy(H5T_C_S1), Where(name)), H5Tclose);
    H5Check(H5Tset_size(type.get(), std::max<std::size_t>(1, value.size())), Where(name));
    H5Check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), Where(name));
    H5Check(H5Tset_cset(type.get(), H5T_CSET_UTF8), Where(name));
    const Hid space(H5Check(H5Screate(H5S_SCALAR), Where(name)), H5Sclose);
    WriteAttribute(object, name, type.get(), type.get(), space.get(), value.c_str());
  }

  void WriteAttribute(hid_t object, const std::string& name, hid_t stored, hid_t memory, hid_t space,
                      const void* data) {
    const Hid attribute(
        H5Check(H5Acreate2(object, name.c_str(), stored, space, H5P_DEFAULT, H5P_DEFAULT), Where(name)),
        H5Aclose);
    if (data != nullptr)
      H5Check(H5Awrite(attribute.get(), memory, data), Where(name));  // null: an empty list
  }

  void DoText(const std::string& name, std::string& value) override { WriteText(group_, name, value); }

  void DoNumbers(const std::string& name, std::vector<std::uint64_t>& values, bool scalar) override {
    const hsize_t extent = values.size();
    const Hid space(
        H5Check(scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr), Where(name)),
        H5Sclose);
    WriteAttribute(group_, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, space.get(),
                   values.empty() ? nullptr : values.data());
  }

  void WriteDataset(const std::string& name, ArrayRef values, const Shape& shape, const char* legend_name,
                    const Legend& legend) {
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const Hid space(
        H5Check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), Where(name)),
        H5Sclose);
    const Hid properties = CreationProperties(H5P_DATASET_CREATE, Where(name));
    const hid_t stored = std::visit([](const auto* v) { return StoredType(*v); }, values);
    const Hid dataset(H5Check(H5Dcreate2(group_, name.c_str(), stored, space.get(), H5P_DEFAULT,
                                         properties.get(), H5P_DEFAULT),
                              Where(name)),
                      H5Dclose);
    const auto write = [&](const auto* v) {
      return v->empty() ? 0
                        : H5Dwrite(dataset.get(), MemoryType(*v), H5S_ALL, H5S_ALL, H5P_DEFAULT, v->data());
    };
    H5Check(std::visit(write, values), Where(name));
    if (!legend.empty()) WriteText(dataset.get(), legend_name, LegendText(legend));
  }

  void DoArray(const std::string& name, ArrayRef values, const Shape& shape, const Legend& columns) override {
    WriteDataset(name, values, shape, kColumnsAttribute, columns);
  }

  void DoCodes(const std::string& name, std::vector<std::uint8_t>& codes, const Legend& legend) override {
    WriteDataset(name, &codes, {codes.size()}, kCodesAttribute, legend);
  }

  void DoGroup(const std::string& name, const std::function<void(TableArchive&)>& fields) override {
    const Hid properties = CreationProperties(H5P_GROUP_CREATE, Where(name));
    const Hid group(
        H5Check(H5Gcreate2(group_, name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), Where(name)),
        H5Gclose);
    Hdf5Writer child(file(), PathOf(name), group.get());
    fields(child);
  }

  bool DoHas(const std::string&) const override { return true; }
  std::vector<std::string> DoNames() const override { return {}; }

  hid_t group_;
};

std::string FileImage(hid_t file, const std::string& what) {
  H5Check(H5Fflush(file, H5F_SCOPE_GLOBAL), what);
  const ssize_t size = H5Check(H5Fget_file_image(file, nullptr, 0), what);
  std::string image(static_cast<std::size_t>(size), '\0');
  H5Check(H5Fget_file_image(file, image.data(), image.size()), what);
  return image;
}

}  // namespace

std::string TableToHdf5(const RotationTable& table, const std::string& file_name) {
  const QuietHdf5Errors quiet;
  const std::string what = "can't write '" + file_name + "'";
  const Hid access(H5Check(H5Pcreate(H5P_FILE_ACCESS), what), H5Pclose);
  H5Check(H5Pset_fapl_core(access.get(), std::size_t{1} << 20, false), what);
  // Superblock version 0: H5Fget_file_image() clears a flag in the superblock without a new checksum, and
  // newer superblocks have one.
  H5Check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V18), what);
  const Hid creation = CreationProperties(H5P_FILE_CREATE, what);
  const Hid file(H5Check(H5Fcreate("so4cal-table", H5F_ACC_TRUNC, creation.get(), access.get()), what),
                 H5Fclose);
  {
    const Hid root(H5Check(H5Gopen2(file.get(), "/", H5P_DEFAULT), what), H5Gclose);
    Hdf5Writer writer(file_name, "", root.get());
    RotationTable fields = table;
    TableFields(writer, fields);
  }
  return FileImage(file.get(), what);
}

}  // namespace so4cal
