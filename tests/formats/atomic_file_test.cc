// SPDX-License-Identifier: Apache-2.0
#include "formats/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

std::string ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// A folder that is a file system of its own, where the test may mount one (needs root).
class MountedFolder {
 public:
  MountedFolder(const std::filesystem::path& path, unsigned long flags, const char* options) : path_(path) {
    std::filesystem::create_directory(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", flags, options) == 0;
  }
  ~MountedFolder() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  MountedFolder(const MountedFolder&) = delete;
  MountedFolder& operator=(const MountedFolder&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

TEST(AtomicFile, WritesAndReplaces) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "a", "one");
  EXPECT_EQ(ReadFileBytes(folder / "a"), "one");
  WriteBytesAtomically(folder / "a", std::string("t\0o", 3));
  EXPECT_EQ(ReadFileBytes(folder / "a"), std::string("t\0o", 3));
  EXPECT_EQ(folder.num_entries(), 1U);  // no temporary file is left
}

// The writer sees a path in the same folder (a rename across file systems is not atomic) that is not `out`.
TEST(AtomicFile, WriterGetsAnotherNameInTheSameFolder) {
  const TempFolder folder;
  WriteAtomically(folder / "a", [&](const std::filesystem::path& temporary) {
    EXPECT_EQ(temporary.parent_path(), folder.path());
    EXPECT_NE(temporary.filename(), "a");
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    std::ofstream(temporary) << "x";
  });
  EXPECT_EQ(ReadFileBytes(folder / "a"), "x");
}

TEST(AtomicFile, ExceptionLeavesTheOldFileAndNothingElse) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "a", "old");
  const auto failing = [](const std::filesystem::path& temporary) {
    std::ofstream(temporary) << "half";
    throw std::runtime_error("stop");
  };
  EXPECT_THROW(WriteAtomically(folder / "a", failing), std::runtime_error);
  EXPECT_EQ(ReadFileBytes(folder / "a"), "old");
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(AtomicFile, WriterThatWritesNothingIsAnError) {
  const TempFolder folder;
  EXPECT_THROW(WriteAtomically(folder / "a", [](const std::filesystem::path&) {}), Error);
  EXPECT_EQ(folder.num_entries(), 0U);
}

TEST(AtomicFile, MissingFolder) {
  const TempFolder folder;
  const std::string error = ErrorOf([&] { WriteBytesAtomically(folder / "no/a", "x"); });
  EXPECT_THAT(error, AllOf(HasSubstr("no/a"), HasSubstr("No such file"), HasSubstr("create the folder")));
}

TEST(AtomicFile, FolderIsAFile) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "file", "x");
  const std::string error = ErrorOf([&] { WriteBytesAtomically(folder / "file/a", "x"); });
  EXPECT_THAT(error, AllOf(HasSubstr("file/a"), HasSubstr("Not a directory")));
}

TEST(AtomicFile, OutputIsAFolderOrADevice) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "sub");
  EXPECT_THAT(ErrorOf([&] { WriteBytesAtomically(folder / "sub", "x"); }), HasSubstr("found a folder"));
  EXPECT_THAT(ErrorOf([&] { WriteBytesAtomically(folder / "sub/", "x"); }), HasSubstr("found a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf([&] { WriteBytesAtomically(folder / "pipe", "x"); }),
              HasSubstr("expected a regular file"));
  EXPECT_THAT(ErrorOf([&] { ReadFileBytes(folder / "pipe"); }), HasSubstr("expected a regular file"));
}

TEST(AtomicFile, SymbolicLinkKeepsPointingAtTheNewContent) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "real");
  WriteBytesAtomically(folder / "real/a", "old");
  std::filesystem::create_symlink("real/a", folder / "link");
  WriteBytesAtomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(ReadFileBytes(folder / "real/a"), "new");
}

TEST(AtomicFile, ReadOnlyFolder) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "ro");
  ::chmod((folder / "ro").c_str(), 0555);
  // Root may write anywhere but on a read-only file system.
  const MountedFolder mounted(folder / "ro-mount", MS_RDONLY, "");
  const bool root = ::geteuid() == 0;
  if (root && !mounted.mounted())
    GTEST_SKIP() << "SKIPPED: root ignores permissions and can't mount a tmpfs here";
  const std::filesystem::path out = root ? folder / "ro-mount/a" : folder / "ro/a";
  const std::string error = ErrorOf([&] { WriteBytesAtomically(out, "x"); });
  EXPECT_THAT(error, AllOf(HasSubstr(root ? "Read-only file system" : "Permission denied"),
                           HasSubstr("choose a folder that you may write to")));
}

TEST(AtomicFile, DiskFullLeavesTheOldFile) {
  const TempFolder folder;
  const MountedFolder mounted(folder / "small", 0, "size=64k");
  if (!mounted.mounted()) GTEST_SKIP() << "SKIPPED: can't mount a tmpfs here (needs root)";
  WriteBytesAtomically(folder / "small/a", "old");
  const std::string error =
      ErrorOf([&] { WriteBytesAtomically(folder / "small/a", std::string(100'000, 'x')); });
  EXPECT_THAT(error, AllOf(HasSubstr("small/a"), HasSubstr("No space left"), HasSubstr("free some space")));
  EXPECT_EQ(ReadFileBytes(folder / "small/a"), "old");
  EXPECT_TRUE(std::filesystem::space(folder / "small").available >=
              50'000U);  // the half-written file is gone
}

TEST(AtomicFile, ReadErrorsNameTheFile) {
  const TempFolder folder;
  EXPECT_THAT(ErrorOf([&] { ReadFileBytes(folder / "none"); }),
              AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(ErrorOf([&] { ReadFileBytes(folder.path()); }), HasSubstr("expected a regular file"));
}

}  // namespace
}  // namespace so4cal
