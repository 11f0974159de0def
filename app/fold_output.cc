// SPDX-License-Identifier: Apache-2.0
#include "app/fold_output.h"

#include <array>

#include "app/interrupt.h"
#include "app/output_path.h"
#include "formats/atomic_file.h"
#include "formats/atomic_folder.h"
#include "formats/fold_note.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

// Unwinds a write, whose temporary files go with it.
struct Interruption {};

void StopIfInterrupted() {
  if (Interrupted()) throw Interruption{};
}

void CheckReplacedFolder(const fs::path& out, std::span<const fs::path> inputs) {
  std::error_code error;
  if (!fs::exists(out / kFoldNoteName, error))
    throw Error("output " + out.string() + " is a folder that no fold wrote (it has no " + kFoldNoteName +
                "): choose another name, or remove it yourself");
  for (const fs::path& input : inputs)
    for (fs::path above = fs::weakly_canonical(input, error); above != above.root_path();
         above = above.parent_path())
      if (fs::equivalent(above, out, error))
        throw Error("output " + out.string() + " holds the input " + input.string() +
                    ": choose another name");
}

void WriteFolder(const FoldPaths& paths, const ModelFiles& model, const std::string& note,
                 const std::function<void(const PathOf& copy)>& fold) {
  WriteFolderAtomically(paths.out, [&](const fs::path& temporary) {
    for (const std::string& name : FilesOfModelFolder(model).copied)
      CopyModelFile(model.folder / name, temporary / name, StopIfInterrupted);
    fold([&](const std::string& file) { return temporary / file; });
    StopIfInterrupted();
    WriteBytesAtomically(temporary / kFoldNoteName, note);
  });
}

void WriteFile(const FoldPaths& paths, const std::function<void(const PathOf& copy)>& fold) {
  WriteAtomically(paths.out, [&](const fs::path& temporary) {
    CopyModelFile(paths.model, temporary, StopIfInterrupted);
    fold([&](const std::string&) { return temporary; });
    StopIfInterrupted();
  });
}

}  // namespace

void CheckFoldOutput(const FoldPaths& paths, const ModelFiles& model) {
  const std::array inputs{paths.table, paths.model};
  if (!model.whole_folder) return CheckOutputPath(paths.out, inputs, paths.force);
  CheckOutputFolder(paths.out, inputs, paths.force);
  if (fs::exists(paths.out)) CheckReplacedFolder(paths.out, inputs);
}

bool WriteFold(const FoldPaths& paths, const ModelFiles& model, const RotationTable& table,
               const std::string& engine_rotation, const std::function<void(const PathOf& copy)>& fold) {
  try {
    if (model.whole_folder)
      WriteFolder(paths, model, FoldNoteJson(table, paths.table, engine_rotation), fold);
    else
      WriteFile(paths, fold);
  } catch (const Interruption&) {
    return false;
  }
  return true;
}

}  // namespace so4cal
