// SPDX-License-Identifier: Apache-2.0
#include "formats/kv_dump_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "formats/kv_dump.h"
#include "lib/error.h"
#include "tests/support/dump_writer.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using testing::TempFolder;

const DumpHeader kHeader{"some model", 12, 300, {0, 40}, {1, 7}};

Activations Values(int layer, Side side) {
  return testing::ExactActivations(3, 300, side == Side::kKey ? 16 : 8, static_cast<unsigned>(layer));
}

// The dump reader, which is tested on its own against other writers, sees the same numbers.
TEST(KvDumpWriterTest, TheDumpReaderReadsIt) {
  const TempFolder folder;
  WriteKvDump(folder / "dump.h5", kHeader, Values);
  const KvDump dump({folder / "dump.h5"}, {});
  EXPECT_EQ(dump.model(), "some model");
  EXPECT_EQ(dump.num_model_layers(), 12);
  EXPECT_EQ(dump.num_tokens(), 300U);
  EXPECT_THAT(dump.files()[0].sequence_starts, ElementsAre(0, 40));
  ASSERT_EQ(dump.layers().size(), 2U);
  for (const int layer : kHeader.layers)
    for (const Side side : kSides) EXPECT_EQ(dump.Read(layer, side).values, Values(layer, side).values);
}

TEST(KvDumpWriterTest, SameValuesSameBytes) {
  const TempFolder folder;
  WriteKvDump(folder / "a.h5", kHeader, Values);
  WriteKvDump(folder / "b.h5", kHeader, Values);
  EXPECT_EQ(ReadFileBytes(folder / "a.h5"), ReadFileBytes(folder / "b.h5"));
}

TEST(KvDumpWriterTest, FailedReadLeavesNothing) {
  const TempFolder folder;
  const auto fail = [](int, Side) -> Activations { throw Error("no more"); };
  EXPECT_THROW(WriteKvDump(folder / "dump.h5", kHeader, fail), Error);
  EXPECT_EQ(folder.num_entries(), 0U);
}

}  // namespace
}  // namespace so4cal
