// SPDX-License-Identifier: Apache-2.0
#include "calib/versions.h"

#include <ceres/version.h>
#include <tbb/version.h>

#include <Eigen/Core>

namespace so4cal {

std::vector<std::pair<std::string, std::string>> CalibLibraryVersions() {
  const std::string eigen = std::to_string(EIGEN_WORLD_VERSION) + '.' + std::to_string(EIGEN_MAJOR_VERSION) +
                            '.' + std::to_string(EIGEN_MINOR_VERSION);
  return {{"Ceres", CERES_VERSION_STRING}, {"Eigen", eigen}, {"oneTBB", TBB_runtime_version()}};
}

}  // namespace so4cal
