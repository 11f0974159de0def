// SPDX-License-Identifier: Apache-2.0
#include "formats/fold_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "formats/content_hash.h"
#include "formats/json_text.h"
#include "lib/version.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

TEST(FoldNote, SaysWhichTableIsInTheWeights) {
  const testing::TempFolder folder;
  WriteBytesAtomically(folder / "t \"1\".h5", "the table");
  const RotationTable table = testing::SampleTable({});
  const std::string text = FoldNoteJson(table, folder / "t \"1\".h5", "hadamard:64");
  const auto note = ParseJson(text, "note");
  EXPECT_EQ(note["format"], "so4cal-fold");
  EXPECT_EQ(note["version"], 1);
  EXPECT_EQ(note["tool_version"], kVersion);
  EXPECT_EQ(note["table"]["name"], "t \"1\".h5");
  const std::string content = "the table";
  EXPECT_EQ(note["table"]["hash"], ContentHash(std::as_bytes(std::span(content))));
  EXPECT_EQ(note["table"]["model"], table.model);
  EXPECT_EQ(note["engine_rotation"], "hadamard:64");
  ASSERT_EQ(note["layers"].size(), 2U);
  EXPECT_EQ(note["layers"][1]["layer"], 2);
  EXPECT_EQ(note["layers"][1]["value_table_hash"], SideTableHash(table.layers[1].side(Side::kValue)));
  EXPECT_EQ(text, FoldNoteJson(table, folder / "t \"1\".h5", "hadamard:64"));
}

}  // namespace
}  // namespace so4cal
