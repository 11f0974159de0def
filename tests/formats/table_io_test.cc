// SPDX-License-Identifier: Apache-2.0
#include "formats/table_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleOptions;
using testing::SampleTable;
using testing::TempFolder;

using Write = void (*)(const RotationTable&, const std::filesystem::path&);

// Every kind of content a table may have.
std::vector<SampleOptions> AllSamples() {
  std::vector<SampleOptions> samples;
  for (const auto& family : Families()) samples.push_back({.family = family.value});
  for (const int bits : {2, 3, 4})
    for (const auto& grid : GridKinds())
      for (const auto& scale : ScaleRules())
        samples.push_back({.family = Family::kSo4, .bits = bits, .grid = grid.value, .scale = scale.value});
  for (const auto& rounding : Roundings()) samples.push_back({.rounding = rounding.value});
  samples.push_back({.head_dim = 128, .value_dim = 64, .num_heads = 1, .layers = {7}, .block = 32});
  samples.push_back({.family = Family::kSo4, .head_dim = 80, .num_heads = 2, .block = 16});
  samples.push_back({.family = Family::kSo4, .num_heads = 32, .signs = true, .offset = false});
  samples.push_back({.family = Family::kLeft, .layers = {0, 1, 2, 9, 10, 11, 100}, .signs = true});
  samples.push_back({.shared = true});
  return samples;
}

class RoundTrip : public ::testing::TestWithParam<Write> {};
INSTANTIATE_TEST_SUITE_P(Formats, RoundTrip, ::testing::Values(&WriteTableHdf5, &WriteTableJson),
                         [](const auto& info) { return info.index == 0 ? "Hdf5" : "Json"; });

// Exact: no tolerance, since both formats keep every bit of every number.
TEST_P(RoundTrip, GivesTheSameTable) {
  const TempFolder folder;
  for (const SampleOptions& options : AllSamples()) {
    const RotationTable table = SampleTable(options);
    GetParam()(table, folder / "table");
    EXPECT_EQ(ReadTable(folder / "table"), table)
        << NameOf(Families(), options.family) << " " << options.bits << " bits, d = " << options.head_dim;
  }
}

TEST_P(RoundTrip, WritingTwiceGivesTheSameBytes) {
  const TempFolder folder;
  const RotationTable table = SampleTable({.rounding = Rounding::kRefined, .signs = true});
  GetParam()(table, folder / "first");
  GetParam()(table, folder / "second");
  EXPECT_EQ(ReadFileBytes(folder / "first"), ReadFileBytes(folder / "second"));
}

TEST_P(RoundTrip, KeepsExtremeNumbers) {
  const TempFolder folder;
  RotationTable table = SampleTable();
  HeadTable& head = table.layers[0].sides[0].heads[0];
  const float extremes[] = {std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::min(),
                            -0.0F,
                            0.1F,
                            16777216.0F,
                            1e10F,
                            -1.0F};
  std::copy(std::begin(extremes), std::end(extremes), head.transform.offset.begin());
  table.layers[0].sides[0].outcomes[0].errors.test_hadamard = std::numeric_limits<double>::denorm_min();
  table.layers[0].sides[0].outcomes[0].errors.test_chosen = 9007199254740993.0;
  GetParam()(table, folder / "table");
  const RotationTable read = ReadTable(folder / "table");
  EXPECT_EQ(read, table);
  EXPECT_TRUE(std::signbit(read.layers[0].sides[0].heads[0].transform.offset[3]));
}

// NaN means "not measured", in any of the figures, and comes back as NaN.
TEST_P(RoundTrip, KeepsErrorsThatWereNotMeasured) {
  const TempFolder folder;
  RotationTable table = SampleTable();
  HeadErrors& errors = table.layers[0].sides[1].outcomes[2].errors;
  for (const HeadErrors::Field& field : HeadErrors::Fields()) {
    const double kept = errors.*field.value;
    errors.*field.value = HeadErrors::kNotMeasured;
    GetParam()(table, folder / "table");
    EXPECT_EQ(ReadTable(folder / "table"), table) << field.name;
    errors.*field.value = kept;
  }
}

TEST_P(RoundTrip, KeepsEmptyTextsAndNoDumps) {
  const TempFolder folder;
  RotationTable table = SampleTable();
  table.model.clear();
  table.options_json.clear();
  table.dumps.clear();
  for (LayerTable& layer : table.layers) {
    layer.hashes.clear();
    layer.counts.clear();
  }
  GetParam()(table, folder / "table");
  EXPECT_EQ(ReadTable(folder / "table"), table);
}

// Above the 64 KiB that an HDF5 object header holds.
TEST_P(RoundTrip, KeepsLongTexts) {
  const TempFolder folder;
  RotationTable table = SampleTable();
  table.options_json = std::string(200'000, 'x');
  GetParam()(table, folder / "table");
  EXPECT_EQ(ReadTable(folder / "table"), table);
}

// An offset of zeros is not the same as none.
TEST_P(RoundTrip, KeepsAnOffsetOfZeros) {
  const TempFolder folder;
  RotationTable table = SampleTable();
  std::vector<float>& offset = table.layers[0].sides[0].heads[1].transform.offset;
  std::fill(offset.begin(), offset.end(), 0.0F);
  GetParam()(table, folder / "table");
  EXPECT_EQ(ReadTable(folder / "table"), table);
}

TEST_P(RoundTrip, RefusesToWriteAnInvalidTable) {
  const TempFolder folder;
  RotationTable table = SampleTable();
  table.layers[0].sides[0].heads[0].transform.stages[0].blocks[0].left[0] += 0.1;
  EXPECT_THROW(GetParam()(table, folder / "table"), Error);
  EXPECT_EQ(folder.num_entries(), 0U);
}

std::string ReadError(const std::filesystem::path& path) {
  try {
    ReadTable(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ReadTable, SaysWhatTheFileIsInstead) {
  const TempFolder folder;
  EXPECT_THAT(ReadError(folder / "none"), AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("expected a regular file"));
  WriteBytesAtomically(folder / "empty", "");
  EXPECT_THAT(ReadError(folder / "empty"), HasSubstr("found an empty file"));
  WriteBytesAtomically(folder / "text", "once upon a time");
  EXPECT_THAT(ReadError(folder / "text"), HasSubstr("expected a rotation table (HDF5 or JSON"));
  WriteBytesAtomically(folder / "other.json", R"({"layers": {}})");
  EXPECT_THAT(ReadError(folder / "other.json"), HasSubstr("not a rotation table"));
}

// Whatever the length, the error is clear: the library's own check of the end of the file must not be relied
// on.
TEST(ReadTable, TruncatedFiles) {
  const TempFolder folder;
  for (const Write write : {&WriteTableHdf5, &WriteTableJson}) {
    write(SampleTable({.num_heads = 1, .layers = {0}}), folder / "table");
    const std::string bytes = ReadFileBytes(folder / "table");
    for (const double share : {0.01, 0.3, 0.6, 0.9, 0.999}) {
      const auto size = static_cast<std::size_t>(share * static_cast<double>(bytes.size()));
      WriteBytesAtomically(folder / "short", bytes.substr(0, size));
      EXPECT_THAT(ReadError(folder / "short"), HasSubstr("short")) << size << " of " << bytes.size();
    }
  }
}

}  // namespace
}  // namespace so4cal
