// SPDX-License-Identifier: Apache-2.0
#include "formats/partial_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "formats/table_io.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SampleTable;
using testing::TempFolder;

RotationTable Layer(int layer) { return SampleTable({.layers = {layer}}); }

std::string ErrorOf(const fs::path& out) {
  try {
    PartialTable(out).ReadLayers();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PartialTable, KeepsLayersForTheNext) {
  const TempFolder folder;
  {
    PartialTable partial(folder / "t.h5");
    partial.Add(Layer(10));
    partial.Add(Layer(2));
  }
  std::ofstream(folder / "t.h5.partial" / ".layer_3.so4.h5.1-0.tmp") << "cut off by a kill";
  PartialTable partial(folder / "t.h5");
  EXPECT_THAT(partial.Layers(), ElementsAre(2, 10));
  EXPECT_THAT(partial.ReadLayers(), ElementsAre(Layer(2), Layer(10)));
  EXPECT_FALSE(fs::exists(folder / "t.h5.partial" / ".layer_3.so4.h5.1-0.tmp"));
}

TEST(PartialTable, LeavesNothingWithoutLayersOrWhenRemoved) {
  const TempFolder folder;
  { const PartialTable empty(folder / "t.h5"); }
  EXPECT_FALSE(fs::exists(folder / "t.h5.partial"));
  {
    PartialTable partial(folder / "t.h5");
    partial.Add(Layer(1));
    partial.Remove();
  }
  EXPECT_FALSE(fs::exists(folder / "t.h5.partial"));
}

// A lock belongs to an open file, so that a second one in this process is refused as another process's is.
TEST(PartialTable, HasOneOwner) {
  const TempFolder folder;
  std::optional<PartialTable> first(std::in_place, folder / "t.h5");
  EXPECT_THAT(ErrorOf(folder / "t.h5"), HasSubstr("another so4cal is writing it"));
  EXPECT_EQ(ErrorOf(folder / "other.h5"), "no error");
  first.reset();
  EXPECT_EQ(ErrorOf(folder / "t.h5"), "no error");
}

TEST(PartialTable, RefusesWhatIsNotItsOwn) {
  const TempFolder folder;
  std::ofstream(folder / "file.partial") << "mine";
  EXPECT_THAT(ErrorOf(folder / "file"), HasSubstr("found a file"));
  fs::create_directory(folder / "t.h5.partial");
  std::ofstream(folder / "t.h5.partial" / "notes.txt") << "mine";
  EXPECT_THAT(ErrorOf(folder / "t.h5"), HasSubstr("found 'notes.txt'"));
  EXPECT_FALSE(fs::exists(folder / "t.h5.partial" / "lock"));
  EXPECT_THAT(ErrorOf(folder / "missing" / "t.h5"), HasSubstr("No such file"));
}

TEST(PartialTable, RefusesALayerUnderAnothersName) {
  const TempFolder folder;
  fs::create_directory(folder / "t.h5.partial");
  WriteTableHdf5(Layer(4), folder / "t.h5.partial" / "layer_3.so4.h5");
  EXPECT_THAT(ErrorOf(folder / "t.h5"), HasSubstr("expected layer 3 and no other"));
}

}  // namespace
}  // namespace so4cal
