// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lib/rotation_table.h"

namespace so4cal {

// One thing in which two fits differ, with both values in words.
struct TableDifference {
  std::string what;  // "option k/bits", "size of dump a.h5"
  std::string first, second;
};

// What makes two tables results of different fits: options, dumps, model, version, instruction set. Layers
// are not looked at.
std::vector<TableDifference> FitDifferences(const RotationTable& first, const RotationTable& second);

// "option k/bits: 3 in a.h5, 4 in b.h5; ..."
std::string DifferencesText(const std::vector<TableDifference>& differences, const std::string& first,
                            const std::string& second);

// A table of some layers, with the name of its file for messages.
struct TablePart {
  std::string name;
  RotationTable table;
};

// The table of one fit over the layers of all parts, in any order. Throws Error that names the parts when
// they are of different fits or two have the same layer, and the layers when the result would not have
// exactly `layers`.
RotationTable MergeTables(std::vector<TablePart> parts, const std::vector<int>& layers);

}  // namespace so4cal
