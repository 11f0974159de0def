// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5_read.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace so4cal {
namespace {

// HDF5 locks what it opens, also to read, and fails where the file system has no locks: then without.
Hid OpenLocked(const std::string& path, const std::string& name) {
  Hid access(H5Check(H5Pcreate(H5P_FILE_ACCESS), name + ": can't set up HDF5"), H5Pclose);
  Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (file) return file;
  std::string reason = Hdf5Reason();
  if (reason.find("unable to lock file") != std::string::npos) {
    if (reason.find("errno = " + std::to_string(EAGAIN) + ",") != std::string::npos)
      throw Error(
          name + ": another program has it open for writing; wait until it is closed (HDF5: " + reason + ")");
    H5Check(H5Pset_file_locking(access.get(), false, true), name + ": can't turn off HDF5 file locks");
    file = Hid(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
    if (file) return file;
    reason = Hdf5Reason();
  }
  throw Error(name + ": expected a complete HDF5 file, but it can't be opened (HDF5: " + reason +
              "); copy it or write it again");
}

std::string AttributeName(const std::string& where, const char* name) {
  return where + ": attribute `" + name + "`";
}

struct OpenAttribute {
  OpenAttribute(hid_t object, const char* name, const std::string& what)
      : attribute(H5Check(H5Aopen(object, name, H5P_DEFAULT), what), H5Aclose),
        type(H5Check(H5Aget_type(attribute.get()), what), H5Tclose) {
    const Hid space(H5Check(H5Aget_space(attribute.get()), what), H5Sclose);
    count = H5Check(H5Sget_simple_extent_npoints(space.get()), what);
  }
  Hid attribute, type;
  hssize_t count = 0;  // of values
};

std::string PaddedText(const std::vector<char>& buffer, H5T_str_t padding) {
  std::string text(buffer.data(), strnlen(buffer.data(), buffer.size()));
  if (padding == H5T_STR_SPACEPAD) text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string FilterName(H5Z_filter_t id, const std::string& stored_name) {
  switch (id) {  // registered numbers, for files whose writer left the name out
    case H5Z_FILTER_DEFLATE:
      return "deflate";
    case H5Z_FILTER_SHUFFLE:
      return "shuffle";
    case H5Z_FILTER_FLETCHER32:
      return "fletcher32";
    case H5Z_FILTER_SZIP:
      return "szip";
    case H5Z_FILTER_NBIT:
      return "nbit";
    case H5Z_FILTER_SCALEOFFSET:
      return "scaleoffset";
    case 307:
      return "bzip2";
    case 32000:
      return "lzf";
    case 32001:
      return "blosc";
    case 32004:
      return "lz4";
    case 32008:
      return "bitshuffle";
    case 32013:
      return "zfp";
    case 32015:
      return "zstd";
    case 32026:
      return "blosc2";
    default:
      return stored_name.empty() ? "filter number " + std::to_string(id) : stored_name;
  }
}

}  // namespace

Hid OpenHdf5ReadOnly(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw Error(name + ": can't be read: " + error.message());
  if (std::filesystem::is_directory(status)) throw Error(name + ": expected an HDF5 file, found a folder");
  errno = 0;
  if (!std::ifstream(path, std::ios::binary))
    throw Error(name + ": can't be read: " + std::strerror(errno == 0 ? EIO : errno));
  const QuietHdf5Errors quiet;
  if (H5Fis_hdf5(name.c_str()) == 0)
    throw Error(name + ": expected an HDF5 file, found something else (" +
                std::to_string(std::filesystem::file_size(path, error)) + " bytes without HDF5's signature)");
  return OpenLocked(name, name);
}

ObjectKind KindOf(hid_t file, const std::string& path) {
  const QuietHdf5Errors quiet;
  if (path == "/") return ObjectKind::kGroup;
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (H5Lexists(file, part.c_str(), H5P_DEFAULT) <= 0) return ObjectKind::kNone;
    if (H5Oexists_by_name(file, part.c_str(), H5P_DEFAULT) <= 0) return ObjectKind::kNone;
    if (slash == std::string::npos) break;
  }
  const Hid object(H5Oopen(file, path.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) return ObjectKind::kNone;
  switch (H5Iget_type(object.get())) {
    case H5I_GROUP:
      return ObjectKind::kGroup;
    case H5I_DATASET:
      return ObjectKind::kDataset;
    default:
      return ObjectKind::kOther;
  }
}

std::vector<std::string> LinkNames(hid_t file, const std::string& group, const std::string& where) {
  const QuietHdf5Errors quiet;
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  H5Check(
      H5Literate_by_name(file, group.c_str(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names, H5P_DEFAULT),
      where + ": can't list the group");
  return names;
}

std::optional<std::string> ReadTextAttribute(hid_t object, const char* name, const std::string& where) {
  const QuietHdf5Errors quiet;
  const std::string what = AttributeName(where, name);
  if (H5Check(H5Aexists(object, name), what) == 0) return std::nullopt;
  const OpenAttribute open(object, name, what);
  if (H5Tget_class(open.type.get()) != H5T_STRING || open.count != 1)
    throw Error(what + ": expected one text, found another type");
  if (H5Tis_variable_str(open.type.get()) > 0) {
    char* text = nullptr;
    H5Check(H5Aread(open.attribute.get(), open.type.get(), &text), what);
    const std::string copy = text == nullptr ? "" : text;
    H5free_memory(text);
    return copy;
  }
  std::vector<char> buffer(H5Tget_size(open.type.get()));
  H5Check(H5Aread(open.attribute.get(), open.type.get(), buffer.data()), what);
  return PaddedText(buffer, H5Tget_strpad(open.type.get()));
}

std::optional<std::vector<double>> ReadNumberAttribute(hid_t object, const char* name,
                                                       const std::string& where) {
  const QuietHdf5Errors quiet;
  const std::string what = AttributeName(where, name);
  if (H5Check(H5Aexists(object, name), what) == 0) return std::nullopt;
  const OpenAttribute open(object, name, what);
  const H5T_class_t kind = H5Tget_class(open.type.get());  // h5py stores a bool as an enumeration
  if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM)
    throw Error(what + ": expected a number, found another type");
  std::vector<double> values(static_cast<std::size_t>(open.count));
  if (values.empty()) throw Error(what + ": expected a number, found nothing");
  H5Check(H5Aread(open.attribute.get(), H5T_NATIVE_DOUBLE, values.data()), what);
  return values;
}

std::vector<std::int64_t> ReadIntegers(hid_t file, const std::string& path, const std::string& where) {
  const QuietHdf5Errors quiet;
  const Hid dataset(H5Check(H5Dopen2(file, path.c_str(), H5P_DEFAULT), where), H5Dclose);
  const Hid type(H5Check(H5Dget_type(dataset.get()), where), H5Tclose);
  const std::vector<hsize_t> extents = ExtentsOf(dataset.get(), where);
  if (H5Tget_class(type.get()) != H5T_INTEGER || extents.size() > 1)
    throw Error(where + ": expected a list of integers, found extents " + ExtentsText(extents) +
                (H5Tget_class(type.get()) == H5T_INTEGER ? "" : " of another type"));
  CheckFilters(dataset.get(), where);
  std::vector<std::int64_t> values(extents.empty() ? 1 : extents[0]);
  if (!values.empty())
    H5Check(H5Dread(dataset.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), where);
  return values;
}

std::vector<hsize_t> ExtentsOf(hid_t dataset, const std::string& where) {
  const QuietHdf5Errors quiet;
  const Hid space(H5Check(H5Dget_space(dataset), where), H5Sclose);
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL)
    throw Error(where + ": expected values, found an empty space");
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(H5Check(H5Sget_simple_extent_ndims(space.get()), where)));
  if (!extents.empty()) H5Check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), where);
  return extents;
}

std::vector<hsize_t> ChunksOf(hid_t dataset, const std::string& where) {
  const QuietHdf5Errors quiet;
  const Hid creation(H5Check(H5Dget_create_plist(dataset), where), H5Pclose);
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return {};
  std::vector<hsize_t> chunks(H5S_MAX_RANK);
  chunks.resize(
      static_cast<std::size_t>(H5Check(H5Pget_chunk(creation.get(), H5S_MAX_RANK, chunks.data()), where)));
  return chunks;
}

std::string ExtentsText(const std::vector<hsize_t>& extents) {
  std::string text = "[";
  for (const hsize_t extent : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::string CheckFilters(hid_t dataset, const std::string& where) {
  const QuietHdf5Errors quiet;
  const Hid creation(H5Check(H5Dget_create_plist(dataset), where), H5Pclose);
  const int count = H5Check(H5Pget_nfilters(creation.get()), where);
  std::string text;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, settings[1] = {0}, config = 0;
    std::size_t num_settings = 1;
    char stored_name[64] = "";
    const H5Z_filter_t id =
        H5Check(H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &num_settings, settings,
                               sizeof(stored_name), stored_name, &config),
                where + ": can't read its filters");
    const std::string name = FilterName(id, stored_name);
    if (H5Zfilter_avail(id) <= 0)
      throw Error(
          where + ": stored with the filter " + name + " (" + std::to_string(id) +
          "), which this HDF5 doesn't have; set HDF5_PLUGIN_PATH to the folder of its plugin, or store "
          "the dataset again with gzip (h5repack -f GZIP=4)");
    text += (text.empty() ? "" : ", ") + name;
    if (id == H5Z_FILTER_DEFLATE && num_settings > 0) text += " " + std::to_string(settings[0]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace so4cal
