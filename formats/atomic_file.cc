// SPDX-License-Identifier: Apache-2.0
#include "formats/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

std::string Advice(int reason) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return ": free some space or choose another output";
    case EACCES:
    case EPERM:
    case EROFS:
      return ": choose a folder that you may write to";
    case ENOENT:
    case ENOTDIR:
      return ": create the folder first or choose another output";
    default:
      return "";
  }
}

[[noreturn]] void FailWrite(const fs::path& out, int reason) {
  throw Error("can't write '" + out.string() + "' (" + std::strerror(reason) + ")" + Advice(reason));
}

// An open file descriptor; closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // Some file systems report a failed write only here. 0, or errno.
  int Close() {
    const int status = ::close(fd_);
    fd_ = -1;
    return status == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

struct RemoveOnExit {
  fs::path path;
  bool armed = true;
  ~RemoveOnExit() {
    if (armed) ::unlink(path.c_str());
  }
};

fs::path FolderOf(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// The file to replace: `out`, or what it links to. Refuses folders, devices and pipes: a rename would
// replace the node itself.
fs::path Target(const fs::path& out) {
  if (!out.has_filename())
    throw Error("can't write '" + out.string() + "': expected a file name, found a folder");
  std::error_code ignored;
  const fs::path target = fs::is_symlink(out, ignored) ? fs::weakly_canonical(out, ignored) : out;
  const fs::file_status status = fs::status(target, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw Error("can't write '" + out.string() + "': expected a regular file or a new name, found " +
                (fs::is_directory(status) ? "a folder" : "a device, pipe or socket") +
                ": choose another output");
  return target;
}

void CheckFolder(const fs::path& out) {
  const fs::path folder = FolderOf(out);
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) FailWrite(out, errno);
  if (!S_ISDIR(info.st_mode)) FailWrite(out, ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) FailWrite(out, errno);
}

fs::path TemporaryName(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  return FolderOf(target) / ("." + target.filename().string() + "." + std::to_string(::getpid()) + "-" +
                             std::to_string(counter++) + ".tmp");
}

// Returns 0, or errno.
int SyncPath(const fs::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0) return errno;
  return file.Close();
}

void WriteAll(const fs::path& path, const fs::path& out, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) FailWrite(out, errno);
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) FailWrite(out, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (const int reason = file.Close(); reason != 0) FailWrite(out, reason);
}

}  // namespace

void WriteAtomically(const fs::path& out, const std::function<void(const fs::path&)>& write) {
  const fs::path target = Target(out);
  CheckFolder(target);
  RemoveOnExit temporary{TemporaryName(target)};
  write(temporary.path);
  if (const int reason = SyncPath(temporary.path, O_RDONLY); reason != 0) FailWrite(out, reason);
  if (::rename(temporary.path.c_str(), target.c_str()) != 0) FailWrite(out, errno);
  temporary.armed = false;
  // The file is complete by now. Some network file systems can't sync a folder, so a failure here is no
  // error.
  SyncPath(FolderOf(target), O_RDONLY | O_DIRECTORY);
}

void WriteBytesAtomically(const fs::path& out, std::string_view bytes) {
  WriteAtomically(out, [&](const fs::path& temporary) { WriteAll(temporary, out, bytes); });
}

std::string ReadFileBytes(const fs::path& path) {
  const auto fail = [&](const std::string& reason) -> Error {
    return Error("can't read '" + path.string() + "' (" + reason + ")");
  };
  Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // O_NONBLOCK: don't hang on a pipe
  struct stat info = {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) throw fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) throw fail("expected a regular file");
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw fail(std::strerror(errno));
    if (got == 0) throw fail("the file became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace so4cal
