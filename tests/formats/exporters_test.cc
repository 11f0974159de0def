// SPDX-License-Identifier: Apache-2.0
// What every export format must do; iterates over the table of exporters.
#include "formats/exporters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>
#include <random>
#include <set>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleTable;
using testing::TempFolder;

class EveryExporter : public ::testing::TestWithParam<Exporter> {};
INSTANTIATE_TEST_SUITE_P(Exporters, EveryExporter,
                         ::testing::ValuesIn(Exporters().begin(), Exporters().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// Exact but for `c`, which keeps floats and no provenance: c_header_test.cc has its rules.
TEST_P(EveryExporter, ReadsBackTheSameTable) {
  if (GetParam().name == "c") return;
  for (const auto& family : Families())
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kRefined}) {
      const TempFolder folder;
      const RotationTable table =
          SampleTable({.family = family.value, .value_dim = 32, .rounding = rounding, .signs = true});
      GetParam().write(table, folder / "out");
      EXPECT_EQ(GetParam().read(folder / "out"), table) << family.name;
    }
}

TEST_P(EveryExporter, WritingTwiceGivesTheSameBytesAndOneFile) {
  const TempFolder folder;
  const RotationTable table = SampleTable();
  GetParam().write(table, folder / "a");
  GetParam().write(table, folder / "b");
  EXPECT_EQ(ReadFileBytes(folder / "a"), ReadFileBytes(folder / "b"));
  EXPECT_EQ(folder.num_entries(), 2U);
}

TEST_P(EveryExporter, RefusesAnInvalidTable) {
  const TempFolder folder;
  RotationTable table = SampleTable();
  table.layers[0].sides[0].heads[0].transform.offset[0] = NAN;
  EXPECT_THROW(GetParam().write(table, folder / "out"), Error);
  EXPECT_EQ(folder.num_entries(), 0U);
}

TEST_P(EveryExporter, MissingFolderAndWrongFilesGiveErrors) {
  const TempFolder folder;
  EXPECT_THROW(GetParam().write(SampleTable(), folder / "none/out"), Error);
  EXPECT_THROW(GetParam().read(folder / "none"), Error);
  WriteBytesAtomically(folder / "text", "once upon a time");
  EXPECT_THROW(GetParam().read(folder / "text"), Error);
}

// Damage anywhere gives an Error or a valid table (in free text, or in bytes that nothing reads), never a
// crash. Seed 5.
TEST_P(EveryExporter, DamagedBytesNeverCrashTheReader) {
  const TempFolder folder;
  GetParam().write(SampleTable({.num_heads = 1, .layers = {0}}), folder / "good");
  const std::string good = ReadFileBytes(folder / "good");
  std::mt19937_64 random(5);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    if (i % 3 == 0) bad.resize(random() % good.size());
    if (!bad.empty()) bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(folder / "bad", std::ios::binary) << bad;
    try {
      GetParam().read(folder / "bad").Check();
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);  // the truncated ones at least
}

TEST_P(EveryExporter, DiskFullGivesAnErrorAndNoFile) {
  const TempFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=16k") != 0)
    GTEST_SKIP() << "SKIPPED: can't mount a tmpfs here (needs root)";
  std::string error;
  try {
    GetParam().write(SampleTable({.num_heads = 8, .layers = {0, 1, 2}}), folder / "out");
  } catch (const Error& e) {
    error = e.what();
  }
  EXPECT_THAT(error, HasSubstr("No space left on device"));
  EXPECT_EQ(folder.num_entries(), 0U);
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

TEST(ExporterFor, ByNameOrExtension) {
  EXPECT_EQ(ExporterFor("out.so4.h5", "").name, "h5");
  EXPECT_EQ(ExporterFor("a.b/out.json", "").name, "json");
  EXPECT_EQ(ExporterFor("out.h", "").name, "c");
  EXPECT_EQ(ExporterFor("out.json", "safetensors").name, "safetensors");  // the name wins
}

TEST(ExporterFor, ListsTheChoices) {
  const auto error = [](const char* out, const char* to) -> std::string {
    try {
      ExporterFor(out, to);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error("out.h5", "onnx2"),
              AllOf(HasSubstr("--to is 'onnx2'"), HasSubstr("h5, json, safetensors, c")));
  EXPECT_THAT(error("out.txt", ""),
              AllOf(HasSubstr("'out.txt'"), HasSubstr(".h5, .json, .safetensors, .h"), HasSubstr("--to")));
  EXPECT_THAT(error("out", ""), HasSubstr("expected one of"));
}

TEST(Exporters, NamesAndExtensionsAreUnique) {
  std::set<std::string_view> names, extensions;
  for (const Exporter& exporter : Exporters()) {
    EXPECT_TRUE(names.insert(exporter.name).second);
    EXPECT_TRUE(extensions.insert(exporter.extension).second);
    EXPECT_FALSE(exporter.summary.empty());
  }
}

}  // namespace
}  // namespace so4cal
