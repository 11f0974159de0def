// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"
#include "tests/support/dump_writer.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using testing::DumpWriter;
using testing::Stored;
using testing::TempFolder;

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Pieces {
  std::size_t count = 0, largest = 0, total = 0;
  std::string hash;
};

// Writes `extents` of f16 with these chunks and visits them; the pieces must follow each other.
Pieces Visit(const std::vector<hsize_t>& extents, const std::vector<hsize_t>& chunks) {
  const TempFolder folder;
  std::size_t size = 1;
  for (const hsize_t extent : extents) size *= extent;
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 1000);
  { DumpWriter(folder / "a.h5").Array("/x", extents, values, {Stored::kF16, chunks, false}); }
  const Hid file(H5Fopen((folder / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  const StoredArray array = DescribeArray(file.get(), "a.h5", "/x", {});
  Pieces pieces;
  pieces.hash = VisitStored(file.get(), array, [&](std::size_t first, std::span<std::byte> raw) {
    EXPECT_EQ(first * 2, pieces.total);
    ++pieces.count;
    pieces.largest = std::max(pieces.largest, raw.size());
    pieces.total += raw.size();
  });
  EXPECT_EQ(pieces.total, size * 2);
  EXPECT_EQ(ReadFloats(file.get(), array, nullptr), values);
  return pieces;
}

// By hand, for 10 MiB of f16, [5120, 16, 64]: pieces are at most 4 MiB or one row of chunks.
TEST(VisitStored, PiecesAreBounded) {
  const std::vector<hsize_t> extents = {5120, 16, 64};
  const Pieces contiguous = Visit(extents, {});
  EXPECT_EQ(contiguous.count, 3u);
  EXPECT_EQ(contiguous.largest, 4 * kMiB);
  const Pieces chunked = Visit(extents, {1024, 16, 64});  // 2 MiB each
  EXPECT_EQ(chunked.count, 3u);
  EXPECT_EQ(chunked.largest, 4 * kMiB);
  const Pieces long_chunks = Visit(extents, {2560, 4, 64});  // a row of chunks has 5 MiB
  EXPECT_EQ(long_chunks.count, 2u);
  EXPECT_EQ(long_chunks.largest, 5 * kMiB);
  const Pieces inner = Visit({2, 40960, 64}, {1, 8192, 64});  // 1 MiB each
  EXPECT_EQ(inner.count, 4u);
  EXPECT_EQ(inner.largest, 4 * kMiB);
  EXPECT_EQ(chunked.hash, contiguous.hash);
  EXPECT_EQ(long_chunks.hash, contiguous.hash);
}

TEST(DescribeArray, ScalarsAndMissingLayersAreRefused) {
  const TempFolder folder;
  { DumpWriter(folder / "a.h5").Array("/x", {2, 4}, std::vector<float>(8)); }
  const Hid file(H5Fopen((folder / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  EXPECT_NO_THROW(DescribeArray(file.get(), "a.h5", "/x", 1));
  EXPECT_THROW(DescribeArray(file.get(), "a.h5", "/x", 2), Error);
  EXPECT_THROW(DescribeArray(file.get(), "a.h5", "/none", {}), Error);
}

}  // namespace
}  // namespace so4cal
