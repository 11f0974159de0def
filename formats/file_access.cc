// SPDX-License-Identifier: Apache-2.0
#include "formats/file_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/error.h"

namespace so4cal {
namespace {

Error Failure(const char* what, const std::filesystem::path& path, const std::string& reason) {
  return Error(std::string("can't ") + what + " '" + path.string() + "' (" + reason + ")");
}

Error WriteFailure(const std::filesystem::path& path, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT;
  return Failure(
      "write", path,
      std::strerror(reason) + std::string(full ? "; free some space or choose another output" : ""));
}

}  // namespace

FileAccess::FileAccess(const std::filesystem::path& path, Mode mode) : path_(path), mode_(mode) {
  const int flags = mode == Mode::kRead        ? O_RDONLY
                    : mode == Mode::kOverwrite ? O_RDWR
                                               : O_RDWR | O_CREAT | O_EXCL;
  fd_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);  // O_NONBLOCK: don't hang on a pipe
  struct stat info = {};
  const bool there = fd_ >= 0 && ::fstat(fd_, &info) == 0;
  const std::string reason = there ? "expected a regular file" : std::strerror(errno);
  if (there && S_ISREG(info.st_mode)) {
    size_ = static_cast<std::uint64_t>(info.st_size);
    return;
  }
  if (fd_ >= 0) ::close(fd_);
  throw Failure(mode == Mode::kCreate ? "create" : "open", path, reason);
}

FileAccess::~FileAccess() { ::close(fd_); }

std::string FileAccess::Read(std::uint64_t begin, std::uint64_t num_bytes) const {
  if (begin > size_ || num_bytes > size_ - begin)
    throw Failure("read", path_, "it ends before byte " + std::to_string(begin + num_bytes));
  std::string bytes(num_bytes, '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got =
        ::pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Failure("read", path_, std::strerror(errno));
    if (got == 0) throw Failure("read", path_, "the file became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

void FileAccess::Write(std::uint64_t begin, std::string_view bytes) const {
  SO4CAL_CHECK(mode_ == Mode::kCreate || (begin <= size_ && bytes.size() <= size_ - begin));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put =
        ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(begin + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw WriteFailure(path_, errno);
    done += static_cast<std::size_t>(put);
  }
}

}  // namespace so4cal
