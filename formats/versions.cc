// SPDX-License-Identifier: Apache-2.0
#include "formats/versions.h"

#include <hdf5.h>
#include <xxhash.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

namespace so4cal {
namespace {

std::string Dotted(unsigned major, unsigned minor, unsigned patch) {
  return std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(patch);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> FormatsLibraryVersions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  const unsigned xxh = XXH_versionNumber();
  return {{"HDF5", Dotted(major, minor, release)},
          {"nlohmann-json",
           Dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"xxHash", Dotted(xxh / 10000, xxh / 100 % 100, xxh % 100)},
          {"zlib", zlibVersion()}};
}

}  // namespace so4cal
