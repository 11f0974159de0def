// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5_write.h"

#include <algorithm>

namespace so4cal {

Hdf5FileWriter::Hdf5FileWriter(const std::filesystem::path& path, const std::filesystem::path& shown)
    : shown_(shown.string()) {
  const std::string where = Where("new file");
  const Hid access(H5Check(H5Pcreate(H5P_FILE_ACCESS), where), H5Pclose);
  H5Check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), where);
  const Hid creation(H5Check(H5Pcreate(H5P_FILE_CREATE), where), H5Pclose);
  H5Check(H5Pset_obj_track_times(creation.get(), false), where);
  file_ = Hid(H5Check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), where), H5Fclose);
}

void Hdf5FileWriter::Group(const std::string& path) {
  const Hid properties(H5Check(H5Pcreate(H5P_GROUP_CREATE), Where(path)), H5Pclose);
  H5Check(H5Pset_obj_track_times(properties.get(), false), Where(path));
  const Hid group(
      H5Check(H5Gcreate2(file_.get(), path.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), Where(path)),
      H5Gclose);
}

void Hdf5FileWriter::Text(const std::string& object, const char* name, const std::string& value) {
  const std::string where = Where(object + " " + name);
  const Hid type(H5Check(H5Tcopy(H5T_C_S1), where), H5Tclose);
  H5Check(H5Tset_size(type.get(), std::max<std::size_t>(1, value.size())), where);
  H5Check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), where);
  H5Check(H5Tset_cset(type.get(), H5T_CSET_UTF8), where);
  const Hid space(H5Check(H5Screate(H5S_SCALAR), where), H5Sclose);
  const Hid attribute(H5Check(H5Acreate_by_name(file_.get(), object.c_str(), name, type.get(), space.get(),
                                                H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                              where),
                      H5Aclose);
  H5Check(H5Awrite(attribute.get(), type.get(), value.c_str()), where);
}

void Hdf5FileWriter::Number(const std::string& object, const char* name, std::uint64_t value) {
  const std::string where = Where(object + " " + name);
  const Hid space(H5Check(H5Screate(H5S_SCALAR), where), H5Sclose);
  const Hid attribute(H5Check(H5Acreate_by_name(file_.get(), object.c_str(), name, H5T_STD_U64LE, space.get(),
                                                H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                              where),
                      H5Aclose);
  H5Check(H5Awrite(attribute.get(), H5T_NATIVE_UINT64, &value), where);
}

void Hdf5FileWriter::Write(const std::string& path, hid_t stored, hid_t memory, const void* values,
                           const std::vector<hsize_t>& shape) {
  const std::string where = Where(path);
  const Hid properties(H5Check(H5Pcreate(H5P_DATASET_CREATE), where), H5Pclose);
  H5Check(H5Pset_obj_track_times(properties.get(), false), where);
  const Hid space(H5Check(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), where),
                  H5Sclose);
  const Hid dataset(H5Check(H5Dcreate2(file_.get(), path.c_str(), stored, space.get(), H5P_DEFAULT,
                                       properties.get(), H5P_DEFAULT),
                            where),
                    H5Dclose);
  H5Check(H5Dwrite(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), where);
}

void Hdf5FileWriter::Dataset(const std::string& path, std::span<const std::uint8_t> values,
                             const std::vector<hsize_t>& shape) {
  Write(path, H5T_STD_U8LE, H5T_NATIVE_UINT8, values.data(), shape);
}
void Hdf5FileWriter::Dataset(const std::string& path, std::span<const float> values,
                             const std::vector<hsize_t>& shape) {
  Write(path, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, values.data(), shape);
}
void Hdf5FileWriter::Dataset(const std::string& path, std::span<const std::int64_t> values,
                             const std::vector<hsize_t>& shape) {
  Write(path, H5T_STD_I64LE, H5T_NATIVE_INT64, values.data(), shape);
}

void Hdf5FileWriter::Flush() { H5Check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), Where("file")); }

}  // namespace so4cal
