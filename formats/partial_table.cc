// SPDX-License-Identifier: Apache-2.0
#include "formats/partial_table.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "formats/atomic_file.h"
#include "formats/table_io.h"
#include "lib/error.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "layer_", kSuffix = ".so4.h5";
constexpr char kLockName[] = "lock";

std::string LayerName(int layer) {
  return std::string(kPrefix) + std::to_string(layer) + std::string(kSuffix);
}

// 7 for "layer_7.so4.h5".
std::optional<int> LayerOf(const std::string& name) {
  int layer = -1;
  if (!name.starts_with(kPrefix)) return {};
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer >= 0 && name == LayerName(layer) ? std::optional(layer) : std::nullopt;
}

// What WriteAtomically leaves when the process is killed: ".layer_7.so4.h5.123-0.tmp".
bool IsTemporary(const std::string& name) {
  return name.starts_with('.' + std::string(kPrefix)) && name.ends_with(".tmp");
}

bool IsOurs(const std::string& name) {
  return name == kLockName || LayerOf(name) || IsTemporary(name) || name.starts_with(".nfs");
}

[[noreturn]] void Fail(const fs::path& folder, const std::string& problem) {
  throw Error("'" + folder.string() + "', which keeps the finished layers: " + problem);
}

}  // namespace

PartialTable::PartialTable(const fs::path& out) : folder_(out.string() + ".partial") {
  Lock();
  try {
    RemoveTemporaries();
    keep_ = !Layers().empty();
  } catch (const fs::filesystem_error& error) {
    ::close(lock_);
    Fail(folder_, "can't read it (" + error.code().message() + ")");
  }
}

PartialTable::~PartialTable() {
  if (!keep_) {
    ::unlink((folder_ / kLockName).c_str());
    ::rmdir(folder_.c_str());
  }
  ::close(lock_);
  if (!keep_) ::rmdir(folder_.c_str());  // NFS keeps a removed file in the folder while it is open
}

// The lock's file goes with the folder, so a lock on a file that another process has removed is none.
bool PartialTable::IsCurrent() const {
  struct stat ours = {}, there = {};
  return ::fstat(lock_, &ours) == 0 && ::stat((folder_ / kLockName).c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

void PartialTable::Lock() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (::mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST)
      Fail(folder_, std::string("can't make it (") + std::strerror(errno) + ")");
    CheckEntries();
    lock_ = ::open((folder_ / kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0 && errno == ENOENT) continue;
    if (lock_ < 0) Fail(folder_, std::string("can't open its lock (") + std::strerror(errno) + ")");
    locked_ = ::flock(lock_, LOCK_EX | LOCK_NB) == 0;
    if (!locked_ && errno == EWOULDBLOCK) {
      ::close(lock_);
      Fail(folder_, "another so4cal is writing it; wait until that has ended, or choose another --out");
    }
    if (IsCurrent()) return;
    ::close(lock_);
  }
  Fail(folder_, "comes and goes; another so4cal is using it, choose another --out");
}

void PartialTable::CheckEntries() const {
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    Fail(folder_, "expected a folder or nothing, found a file; remove it, or choose another --out");
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!IsOurs(name))
      Fail(folder_, "expected only files of so4cal fit, found '" + name +
                        "'; move it elsewhere, or choose another --out");
  }
}

void PartialTable::RemoveTemporaries() const {
  std::vector<fs::path> temporaries;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (IsTemporary(entry.path().filename())) temporaries.push_back(entry.path());
  for (const fs::path& path : temporaries) fs::remove(path);
}

std::vector<int> PartialTable::Layers() const {
  std::vector<int> layers;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (const auto layer = LayerOf(entry.path().filename())) layers.push_back(*layer);
  std::ranges::sort(layers);
  return layers;
}

std::vector<RotationTable> PartialTable::ReadLayers() const {
  std::vector<RotationTable> tables;
  for (const int layer : Layers()) {
    const fs::path path = folder_ / LayerName(layer);
    tables.push_back(ReadTable(path));
    if (tables.back().layers.size() != 1 || tables.back().layers[0].layer != layer)
      throw Error("'" + path.string() + "': expected layer " + std::to_string(layer) +
                  " and no other, as its name says; remove the file, and the layer is fitted again");
  }
  return tables;
}

void PartialTable::Add(const RotationTable& layer) {
  SO4CAL_CHECK(layer.layers.size() == 1);
  WriteTableHdf5(layer, folder_ / LayerName(layer.layers[0].layer));
  keep_ = true;
}

void PartialTable::Remove() {
  for (const int layer : Layers()) fs::remove(folder_ / LayerName(layer));
  keep_ = false;  // the rest goes when this does
}

}  // namespace so4cal
