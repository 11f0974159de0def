// SPDX-License-Identifier: Apache-2.0
// What every export format must do; iterates over the table of exporters.
#include "formats/exporters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>
#include <map>
#include <random>
#include <set>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using testing::SampleOptions;
using testing::SampleTable;
using testing::TempFolder;

class EveryExporter : public ::testing::TestWithParam<Exporter> {};
INSTANTIATE_TEST_SUITE_P(Exporters, EveryExporter,
                         ::testing::ValuesIn(Exporters().begin(), Exporters().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// A table that the format can carry.
SampleOptions OptionsFor(const Exporter& exporter) {
  SampleOptions options;
  options.offset = exporter.name != "gguf" && exporter.name != "onnx" && exporter.name != "oscar";
  options.shared = exporter.name == "gguf";
  return options;
}

// Of a file, or of all files of a folder.
std::string AllBytes(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return ReadFileBytes(path);
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    files[entry.path().filename()] = ReadFileBytes(entry.path());
  std::string all;
  for (const auto& [name, bytes] : files) all += name + bytes;
  return all;
}

// The formats of rotations alone keep those, in float: entries of at most 1, recognized blocks twice rounded.
TEST_P(EveryExporter, ReadsBackTheSameRotations) {
  for (const auto& family : Families())
    for (const bool signs : {false, true}) {
      const TempFolder folder;
      SampleOptions options = OptionsFor(GetParam());
      options.family = family.value;
      options.value_dim = 32;
      options.signs = signs;
      const RotationTable table = SampleTable(options);
      GetParam().write(table, folder / "out");
      const auto before = ToDense(table), after = ToDense(GetParam().read(folder / "out", {}));
      ASSERT_EQ(before.size(), after.size());
      for (std::size_t i = 0; i < before.size(); ++i)
        for (const Side s : kSides) {
          EXPECT_EQ(before[i].side(s).offsets, after[i].side(s).offsets);
          ASSERT_EQ(before[i].side(s).rotations.size(), after[i].side(s).rotations.size());
          for (std::size_t h = 0; h < before[i].side(s).rotations.size(); ++h)
            EXPECT_THAT(after[i].side(s).rotations[h],
                        Pointwise(FloatNear(1e-6F), before[i].side(s).rotations[h]))
                << family.name << " layer " << i << SideName(s) << h;
        }
    }
}

TEST_P(EveryExporter, ReadsBackTheSameTable) {
  if (GetParam().name != "h5" && GetParam().name != "json" && GetParam().name != "safetensors") return;
  for (const auto& family : Families())
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kRefined}) {
      const TempFolder folder;
      const RotationTable table =
          SampleTable({.family = family.value, .value_dim = 32, .rounding = rounding, .signs = true});
      GetParam().write(table, folder / "out");
      EXPECT_EQ(GetParam().read(folder / "out", {}), table) << family.name;
    }
}

TEST_P(EveryExporter, WritingTwiceGivesTheSameBytesAndOneFile) {
  const TempFolder folder;
  const RotationTable table = SampleTable(OptionsFor(GetParam()));
  GetParam().write(table, folder / "a");
  GetParam().write(table, folder / "b");
  EXPECT_EQ(AllBytes(folder / "a"), AllBytes(folder / "b"));
  EXPECT_EQ(folder.num_entries(), 2U);
}

TEST_P(EveryExporter, RefusesAnInvalidTable) {
  const TempFolder folder;
  RotationTable table = SampleTable(OptionsFor(GetParam()));
  table.layers[0].sides[0].heads[0].transform.stages[0].blocks[0].left[0] = NAN;
  EXPECT_THROW(GetParam().write(table, folder / "out"), Error);
  EXPECT_EQ(folder.num_entries(), 0U);
}

TEST_P(EveryExporter, MissingFolderAndWrongFilesGiveErrors) {
  const TempFolder folder;
  EXPECT_THROW(GetParam().write(SampleTable(OptionsFor(GetParam())), folder / "none/out"), Error);
  EXPECT_THROW(GetParam().read(folder / "none", {}), Error);
  WriteBytesAtomically(folder / "text", "once upon a time");
  EXPECT_THROW(GetParam().read(folder / "text", {}), Error);
}

// Damage anywhere gives an Error or a valid table (in free text, or in bytes that nothing reads), never a
// crash. Seed 5.
TEST_P(EveryExporter, DamagedBytesNeverCrashTheReader) {
  const TempFolder folder;
  SampleOptions options = OptionsFor(GetParam());
  options.num_heads = 1;
  options.layers = {0};
  GetParam().write(SampleTable(options), folder / "table");
  const std::filesystem::path file = folder / (GetParam().folder() ? "table/k_rotation.pt" : "table");
  const std::string good = ReadFileBytes(file);
  std::mt19937_64 random(5);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    if (i % 3 == 0) bad.resize(random() % good.size());
    if (!bad.empty()) bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(file, std::ios::binary) << bad;
    try {
      GetParam().read(folder / "table", {}).Check();
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GE(refused, 99);  // the truncated ones at least; one of them may have lost padding only
}

TEST_P(EveryExporter, DiskFullGivesAnErrorAndNoFile) {
  const TempFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=16k") != 0)
    GTEST_SKIP() << "SKIPPED: can't mount a tmpfs here (needs root)";
  std::string error;
  try {
    SampleOptions options = OptionsFor(GetParam());
    options.num_heads = 8;
    options.layers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    GetParam().write(SampleTable(options), folder / "out");
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
  EXPECT_EQ(ExporterFor(".", "").name, "oscar");                          // the one that is a folder
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
              AllOf(HasSubstr("--to is 'onnx2'"), HasSubstr("h5, json, safetensors, oscar, gguf, onnx, c")));
  EXPECT_THAT(error("out.txt", ""),
              AllOf(HasSubstr("'out.txt'"), HasSubstr(".h5, .json, .safetensors, .gguf, .onnx, .h"),
                    HasSubstr("--to")));
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
