// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "app/fold_model.h"
#include "formats/model_files.h"
#include "lib/rotation_table.h"

namespace so4cal {

struct FoldPaths {
  std::filesystem::path table, model, out;
  bool force = false;
};

// Throws Error when `out` can't become the folded model: CheckOutputPath and CheckOutputFolder; a folder is
// replaced only if a fold wrote it, and never one that holds an input.
void CheckFoldOutput(const FoldPaths& paths, const ModelFiles& model);

// Copies the model to a temporary name, has the weights of the copy folded, adds the note to a folder and
// gives it its name. False, with nothing written, after an interrupt.
bool WriteFold(const FoldPaths& paths, const ModelFiles& model, const RotationTable& table,
               const std::string& engine_rotation, const std::function<void(const PathOf& copy)>& fold);

}  // namespace so4cal
