// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace so4cal {

// Name and version of the libraries behind the files, as loaded, for `info`.
std::vector<std::pair<std::string, std::string>> FormatsLibraryVersions();

}  // namespace so4cal
