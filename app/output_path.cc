// SPDX-License-Identifier: Apache-2.0
#include "app/output_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

// Links and hard links included; neither has to exist.
bool SameFile(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;
  return fs::weakly_canonical(a, ignored) == fs::weakly_canonical(b, ignored);
}

void CheckFolder(const fs::path& out) {
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  const std::string where = "output " + out.string() + ": folder '" + folder.string() + "' ";
  std::error_code error;
  if (!fs::exists(folder, error)) throw Error(where + "does not exist: make it first");
  if (!fs::is_directory(folder, error)) throw Error(where + "is a file, expected a folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error(where + "is not writable (" + std::strerror(errno) + "): choose another folder");
}

void CheckNoInput(const fs::path& out, std::span<const fs::path> inputs) {
  if (out.empty()) throw Error("output: the path is empty, expected a name");
  for (const fs::path& input : inputs)
    if (SameFile(out, input))
      throw Error("output " + out.string() + " is the same file as the input " + input.string() +
                  ": choose another name");
}

}  // namespace

void CheckOutputPath(const fs::path& out, std::span<const fs::path> inputs, bool force) {
  CheckNoInput(out, inputs);
  std::error_code error;
  if (fs::is_directory(out, error))
    throw Error("output " + out.string() + " is a folder, expected a file name");
  if (fs::exists(out, error) && !fs::is_regular_file(out, error))
    throw Error("output " + out.string() + " is a device, pipe or socket, expected a file name");
  if (fs::exists(fs::symlink_status(out, error)) && !force)
    throw Error("output " + out.string() + " exists: pass --force to replace it");
  CheckFolder(out);
}

void CheckOutputFolder(const fs::path& given, std::span<const fs::path> inputs, bool force) {
  const fs::path out = given.has_filename() ? given : given.parent_path();  // "folder/" is "folder"
  CheckNoInput(out, inputs);
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(out, error);
  for (const fs::path& input : inputs)
    for (fs::path above = absolute.parent_path(); above != above.root_path(); above = above.parent_path())
      if (fs::is_directory(input, error) && SameFile(above, input))
        throw Error("output " + out.string() + " is inside the input " + input.string() +
                    ": choose another folder");
  const fs::file_status status = fs::symlink_status(out, error);
  if (fs::exists(status) && !fs::is_directory(status))
    throw Error("output " + out.string() + " is a file, expected a new folder");
  if (fs::exists(status) && !force)
    throw Error("output " + out.string() + " exists: pass --force to replace it");
  CheckFolder(out);
}

}  // namespace so4cal
