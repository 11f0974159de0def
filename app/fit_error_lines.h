// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lib/rotation_table.h"

namespace so4cal {

// Lines of the summary of `fit`: NMSE on test tokens beside Hadamard's and, where the table has it, what the
// guard compared on validation tokens.
std::string FitErrorLines(const RotationTable& table);

}  // namespace so4cal
