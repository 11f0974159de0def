// SPDX-License-Identifier: Apache-2.0
#include "formats/rows_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::HasSubstr;
using testing::Hdf5Edit;
using testing::TempFolder;

constexpr std::uint64_t kTokens = 5;
const DumpHeader kHeader{"some model", 30, kTokens, {0, 3}, {2, 10}};

// Different bytes on every side; values have another head_dim.
PackedSide SideRows(int layer, Side side) {
  PackedSide packed;
  packed.codec = {side == Side::kKey ? 16 : 24, side == Side::kKey ? 3 : 2, 8, GridKind::kFull,
                  ScaleRule::kAbsmax};
  packed.num_heads = 2;
  packed.num_tokens = kTokens;
  packed.table_hash = "hash of " + std::to_string(layer) + SideName(side);
  packed.rows.resize(2 * kTokens * packed.codec.row_bytes());
  std::iota(packed.rows.begin(), packed.rows.end(),
            static_cast<std::uint8_t>(layer + static_cast<int>(side)));
  return packed;
}

std::string Written(const TempFolder& folder, const std::string& name = "rows.h5") {
  WriteRowsFile(folder / name, kHeader, SideRows);
  return (folder / name).string();
}

std::string OpenError(const std::string& path) {
  try {
    const RowsFile file(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(RowsFileTest, ReadsBackWhatWasWritten) {
  const TempFolder folder;
  const RowsFile file(Written(folder));
  EXPECT_EQ(file.header(), kHeader);
  for (const int layer : kHeader.layers)
    for (const Side side : kSides) {
      const PackedSide expected = SideRows(layer, side), found = file.Read(layer, side);
      EXPECT_EQ(found.codec, expected.codec);
      EXPECT_EQ(found.num_heads, 2);
      EXPECT_EQ(found.num_tokens, kTokens);
      EXPECT_EQ(found.table_hash, expected.table_hash);
      EXPECT_EQ(found.rows, expected.rows);
    }
}

TEST(RowsFileTest, SameRowsSameBytes) {
  const TempFolder folder;
  EXPECT_EQ(ReadFileBytes(Written(folder, "a.h5")), ReadFileBytes(Written(folder, "b.h5")));
}

// An error in the middle leaves nothing behind, not even a temporary file.
TEST(RowsFileTest, FailedEncodeLeavesNothing) {
  const TempFolder folder;
  const auto encode = [](int layer, Side side) {
    if (layer == 10) throw Error("token 3 is not a number");
    return SideRows(layer, side);
  };
  EXPECT_THROW(WriteRowsFile(folder / "rows.h5", kHeader, encode), Error);
  EXPECT_EQ(folder.num_entries(), 0U);
}

// One defect each; the message names what is wrong.
TEST(RowsFileTest, RefusesDamagedFiles) {
  struct Case {
    std::string words;
    std::function<void(Hdf5Edit&)> damage;
  };
  const std::vector<Case> cases = {
      {"format is so4cal-table",
       [](Hdf5Edit& f) {
         f.SetText({"/", "format", true}, "so4cal-table");
       }},
      {"version is 2, expected 1",
       [](Hdf5Edit& f) {
         f.SetNumber({"/", "version", true}, 2);
       }},
      {"row_format_version is 9",
       [](Hdf5Edit& f) {
         f.SetNumber({"/", "row_format_version", true}, 9);
       }},
      {"model is missing",
       [](Hdf5Edit& f) {
         f.Remove({"/", "model", true});
       }},
      {"/sequence_starts is missing",
       [](Hdf5Edit& f) {
         f.Remove({"/", "sequence_starts", false});
       }},
      {"/sequence_starts has 5", [](Hdf5Edit& f) { f.Poke("/sequence_starts", 1, 5); }},
      {"/sequence_starts has 0", [](Hdf5Edit& f) { f.Poke("/sequence_starts", 1, 0); }},
      {"/sequence_starts has 1", [](Hdf5Edit& f) { f.Poke("/sequence_starts", 0, 1); }},
      {"/layers/2/v_rows is missing",
       [](Hdf5Edit& f) {
         f.Remove({"/layers/2", "v_rows", false});
       }},
      {"/layers is missing",
       [](Hdf5Edit& f) {
         f.Remove({"/", "layers", false});
       }},
  };
  for (const Case& c : cases) {
    const TempFolder folder;
    const std::string path = Written(folder);
    {
      Hdf5Edit file(path);
      c.damage(file);
    }
    EXPECT_THAT(OpenError(path), HasSubstr(c.words));
  }
}

TEST(RowsFileTest, RefusesRowsOfAnotherLength) {
  const TempFolder folder;
  const std::string path = Written(folder);
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  const Hid rows(H5Dopen2(file.get(), "/layers/10/k_rows", H5P_DEFAULT), H5Dclose);
  const std::uint64_t bits = 4;
  const Hid attribute(H5Aopen(rows.get(), "bits", H5P_DEFAULT), H5Aclose);
  H5Check(H5Awrite(attribute.get(), H5T_NATIVE_UINT64, &bits), "bits");
  H5Check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush");
  EXPECT_THAT(OpenError(path), HasSubstr("/layers/10/k_rows: has extents"));
}

TEST(RowsFileTest, RefusesOtherFiles) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "text.h5", "no rows at all");
  EXPECT_THAT(OpenError((folder / "text.h5").string()), HasSubstr("text.h5"));
  EXPECT_THAT(OpenError((folder / "none.h5").string()), HasSubstr("none.h5"));
}

}  // namespace
}  // namespace so4cal
