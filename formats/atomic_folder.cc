// SPDX-License-Identifier: Apache-2.0
#include "formats/atomic_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Fail(const fs::path& out, int reason) {
  throw Error("can't write the folder '" + out.string() + "' (" + std::strerror(reason) +
              "): choose a place that exists, that you may write to and that has space");
}

fs::path Beside(const fs::path& out, const char* suffix) {
  static std::atomic<unsigned> counter{0};
  return out.parent_path() / ("." + out.filename().string() + "." + std::to_string(::getpid()) + "-" +
                              std::to_string(counter++) + suffix);
}

// Some network file systems can't sync a folder: its failure is no error.
void Sync(const fs::path& path, bool folder, const fs::path& out) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (folder ? O_DIRECTORY : 0));
  const int status = file < 0 ? -1 : ::fsync(file);
  const int reason = errno;
  if (file >= 0) ::close(file);
  if (status != 0 && !folder) Fail(out, reason);
}

struct RemoveOnExit {
  fs::path path;
  bool armed = true;
  ~RemoveOnExit() {
    std::error_code ignored;
    if (armed) fs::remove_all(path, ignored);
  }
};

}  // namespace

void WriteFolderAtomically(const fs::path& given, const std::function<void(const fs::path&)>& write) {
  fs::path out = given.has_filename() ? given : given.parent_path();  // "folder/" is "folder"
  if (!out.has_parent_path()) out = "." / out;
  std::error_code error;
  const bool replaced = fs::is_directory(out, error);
  if (!replaced && fs::exists(fs::symlink_status(out, error))) Fail(given, ENOTDIR);
  const RemoveOnExit temporary{Beside(out, ".tmp")};
  RemoveOnExit old{Beside(out, ".old"), false};  // the user's own until the new folder has its name
  if (!fs::create_directory(temporary.path, error)) Fail(given, error.value());
  write(temporary.path);
  for (const auto& entry : fs::recursive_directory_iterator(temporary.path))
    Sync(entry.path(), entry.is_directory(), given);
  if (replaced && ::rename(out.c_str(), old.path.c_str()) != 0) Fail(given, errno);
  if (::rename(temporary.path.c_str(), out.c_str()) != 0) {
    const int reason = errno;
    if (replaced) (void)::rename(old.path.c_str(), out.c_str());
    Fail(given, reason);
  }
  old.armed = replaced;
  Sync(out.parent_path(), /*folder=*/true, given);
}

}  // namespace so4cal
