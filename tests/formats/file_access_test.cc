// SPDX-License-Identifier: Apache-2.0
#include "formats/file_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using testing::TempFolder;
using Mode = FileAccess::Mode;

TEST(FileAccess, RangesAreReadAndOverwrittenAloneInTheirPlace) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "a", "0123456789");
  {
    const FileAccess file(folder / "a", Mode::kOverwrite);
    EXPECT_EQ(file.size(), 10U);
    file.Write(3, "xyz");
    EXPECT_EQ(file.Read(2, 5), "2xyz6");
    EXPECT_EQ(file.Read(10, 0), "");
  }
  EXPECT_EQ(ReadFileBytes(folder / "a"), "012xyz6789");
}

TEST(FileAccess, ANewFileGrows) {
  const TempFolder folder;
  {
    const FileAccess file(folder / "a", Mode::kCreate);
    file.Write(0, "one");
    file.Write(3, "two");
  }
  EXPECT_EQ(ReadFileBytes(folder / "a"), "onetwo");
  EXPECT_THROW(FileAccess(folder / "a", Mode::kCreate), Error);
}

TEST(FileAccess, Refuses) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "a", "0123");
  const FileAccess file(folder / "a", Mode::kRead);
  EXPECT_THROW(file.Read(2, 3), Error);
  EXPECT_THROW(file.Read(5, 0), Error);
  EXPECT_THROW(file.Read(1, ~std::uint64_t{0}), Error);
  EXPECT_THROW(file.Write(0, "x"), Error);
  EXPECT_THROW(FileAccess(folder / "none", Mode::kRead), Error);
  EXPECT_THROW(FileAccess(folder.path(), Mode::kRead), Error);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(FileAccess(folder / "pipe", Mode::kRead), Error);
}

}  // namespace
}  // namespace so4cal
