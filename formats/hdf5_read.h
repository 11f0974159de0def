// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/hdf5_handle.h"

// Small reads from HDF5 files. `where` names file and object for the messages: "dump.h5: /layers/0".
// All throw Error.
namespace so4cal {

// Opens read-only. One clear line for what isn't there, a folder, no permission, not HDF5, truncated, or
// open for writing elsewhere. Works on file systems without locks.
Hid OpenHdf5ReadOnly(const std::filesystem::path& path);

enum class ObjectKind { kNone, kGroup, kDataset, kOther };
// What a path leads to; kNone also where a part of the path is missing or a link is broken.
ObjectKind KindOf(hid_t file, const std::string& path);

// Names of the links in a group, in HDF5's name order.
std::vector<std::string> LinkNames(hid_t file, const std::string& group, const std::string& where);

// Scalar string attribute, fixed or variable length, without padding. Empty optional: not there.
std::optional<std::string> ReadTextAttribute(hid_t object, const char* name, const std::string& where);
// Integers, floats or booleans, scalar or array.
std::optional<std::vector<double>> ReadNumberAttribute(hid_t object, const char* name,
                                                       const std::string& where);

// A list of integers of any width: one axis, or a scalar as a list of one.
std::vector<std::int64_t> ReadIntegers(hid_t file, const std::string& path, const std::string& where);

// Extents of a dataset or of its chunks; chunks are empty for contiguous and compact storage.
std::vector<hsize_t> ExtentsOf(hid_t dataset, const std::string& where);
std::vector<hsize_t> ChunksOf(hid_t dataset, const std::string& where);
// "[1024, 3, 64]"
std::string ExtentsText(const std::vector<hsize_t>& extents);

// "none" or "shuffle, deflate 4". Throws before anything is read when a filter isn't there in this HDF5.
std::string CheckFilters(hid_t dataset, const std::string& where);

}  // namespace so4cal
