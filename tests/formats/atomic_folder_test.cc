// SPDX-License-Identifier: Apache-2.0
#include "formats/atomic_folder.h"

#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

TEST(AtomicFolder, IsThereWholeOrNotAtAll) {
  const TempFolder folder;
  const auto write = [&](const fs::path& temporary) {
    WriteBytesAtomically(temporary / "a", "1");
    fs::create_directory(temporary / "sub");
    WriteBytesAtomically(temporary / "sub" / "b", "2");
    EXPECT_FALSE(fs::exists(folder / "out"));
  };
  WriteFolderAtomically(folder / "out", write);
  EXPECT_EQ(ReadFileBytes(folder / "out" / "sub" / "b"), "2");
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(AtomicFolder, FailureLeavesWhatWasThere) {
  const TempFolder folder;
  WriteFolderAtomically(folder / "out", [](const fs::path& t) { WriteBytesAtomically(t / "a", "old"); });
  EXPECT_THROW(WriteFolderAtomically(folder / "out",
                                     [](const fs::path& t) {
                                       WriteBytesAtomically(t / "a", "new");
                                       throw Error("disk full");
                                     }),
               Error);
  EXPECT_EQ(ReadFileBytes(folder / "out" / "a"), "old");
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(AtomicFolder, ReplacesTheFolderWithAllThatIsInIt) {
  const TempFolder folder;
  WriteFolderAtomically(folder / "out", [](const fs::path& t) { WriteBytesAtomically(t / "a", "old"); });
  WriteFolderAtomically(folder / "out/", [](const fs::path& t) { WriteBytesAtomically(t / "b", "new"); });
  EXPECT_FALSE(fs::exists(folder / "out" / "a"));
  EXPECT_EQ(ReadFileBytes(folder / "out" / "b"), "new");
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(AtomicFolder, RefusesAFileAndAMissingParent) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "file", "1");
  const auto write = [](const fs::path&) { FAIL() << "nothing to write to"; };
  EXPECT_THROW(WriteFolderAtomically(folder / "file", write), Error);
  EXPECT_THROW(WriteFolderAtomically(folder / "missing" / "out", write), Error);
  EXPECT_EQ(ReadFileBytes(folder / "file"), "1");
}

}  // namespace
}  // namespace so4cal
