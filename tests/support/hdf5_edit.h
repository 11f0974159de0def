// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "formats/hdf5_handle.h"

// Changes single objects of an HDF5 file, to see readers refuse them.
namespace so4cal::testing {

// An attribute or a dataset by the path of its group.
struct Hdf5Object {
  std::string group;  // "/layers/0"
  std::string name;
  bool attribute = false;
  std::string path() const { return (group == "/" ? "" : group) + "/" + name; }
};

class Hdf5Edit {
 public:
  explicit Hdf5Edit(const std::string& path)
      : file_(H5Check(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open"), H5Fclose) {}

  // All attributes, datasets and groups below `group`, attributes of datasets left out.
  std::vector<Hdf5Object> Objects(const std::string& group = "/") const {
    std::vector<Hdf5Object> objects;
    const Hid id = Open(group);
    std::vector<std::string> attributes, links;
    const auto add_attribute = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return 0;
    };
    const auto add_link = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return 0;
    };
    H5Check(H5Aiterate2(id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_attribute, &attributes), "list");
    H5Check(H5Literate(id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_link, &links), "list");
    for (const std::string& name : attributes) objects.push_back({group, name, true});
    for (const std::string& name : links) {
      objects.push_back({group, name, false});
      const std::string path = objects.back().path();
      if (!IsGroup(path)) continue;
      for (Hdf5Object& inner : Objects(path)) objects.push_back(std::move(inner));
    }
    return objects;
  }

  bool IsGroup(const std::string& path) const {
    H5O_info_t info;
    H5Check(H5Oget_info_by_name(file_.get(), path.c_str(), &info, H5P_DEFAULT), "info");
    return info.type == H5O_TYPE_GROUP;
  }

  void Remove(const Hdf5Object& object) {
    const Hid group = Open(object.group);
    H5Check(object.attribute ? H5Adelete(group.get(), object.name.c_str())
                             : H5Ldelete(group.get(), object.name.c_str(), H5P_DEFAULT),
            "remove " + object.path());
  }

  void SetText(const Hdf5Object& object, const std::string& text) {
    const Hid type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.get(), text.size());
    const Hid space(H5Screate(H5S_SCALAR), H5Sclose);
    SetAttribute(object, type.get(), space.get(), text.data());
  }

  void SetNumbers(const Hdf5Object& object, const std::vector<long long>& values, bool scalar) {
    const hsize_t extent = values.size();
    const Hid space(scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr), H5Sclose);
    SetAttribute(object, H5T_NATIVE_LLONG, space.get(), values.data());
  }
  void SetNumber(const Hdf5Object& object, long long value) { SetNumbers(object, {value}, true); }

  // Overwrites one element of a dataset.
  void Poke(const std::string& path, std::size_t index, double value) {
    const Hid dataset(H5Check(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), path), H5Dclose);
    const Hid space(H5Dget_space(dataset.get()), H5Sclose);
    std::vector<double> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
    H5Check(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), path);
    values.at(index) = value;
    H5Check(H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), path);
  }

  std::vector<hsize_t> Extents(const std::string& path) const {
    const Hid dataset(H5Check(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), path), H5Dclose);
    const Hid space(H5Dget_space(dataset.get()), H5Sclose);
    std::vector<hsize_t> extents(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
    H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
    return extents;
  }
  Hid Type(const std::string& path) const {
    const Hid dataset(H5Check(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), path), H5Dclose);
    return Hid(H5Dget_type(dataset.get()), H5Tclose);
  }

  // Puts a dataset that was never written in the place of another; chunked ones take no space in the file.
  void Replace(const std::string& path, hid_t type, const std::vector<hsize_t>& extents,
               bool chunked = false) {
    H5Check(H5Ldelete(file_.get(), path.c_str(), H5P_DEFAULT), path);
    const Hid space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose);
    const Hid properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const std::vector<hsize_t> chunk(extents.size(), 1);
    if (chunked) H5Check(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()), path);
    const Hid dataset(H5Check(H5Dcreate2(file_.get(), path.c_str(), type, space.get(), H5P_DEFAULT,
                                         properties.get(), H5P_DEFAULT),
                              path),
                      H5Dclose);
  }

  hid_t file() const { return file_.get(); }

 private:
  Hid Open(const std::string& group) const {
    return Hid(H5Check(H5Gopen2(file_.get(), group.c_str(), H5P_DEFAULT), group), H5Gclose);
  }
  void SetAttribute(const Hdf5Object& object, hid_t type, hid_t space, const void* data) {
    const Hid group = Open(object.group);
    if (H5Aexists(group.get(), object.name.c_str()) > 0) H5Adelete(group.get(), object.name.c_str());
    const Hid attribute(
        H5Check(H5Acreate2(group.get(), object.name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                object.path()),
        H5Aclose);
    H5Check(H5Awrite(attribute.get(), type, data), object.path());
  }

  Hid file_;
};

}  // namespace so4cal::testing
