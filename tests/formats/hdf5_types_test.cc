// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "formats/dump_dataset.h"
#include "lib/error.h"
#include "tests/support/dump_writer.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using testing::DumpWriter;
using testing::Stored;
using testing::TempFolder;

// Property: each way to store a value is told by its fields and gives the value back, the extremes included.
TEST(HdfTypes, NamesAndValues) {
  const std::pair<Stored, const char*> names[] = {{Stored::kF16, "f16"},
                                                  {Stored::kBf16Float, "bf16"},
                                                  {Stored::kBf16Opaque, "bf16 (opaque)"},
                                                  {Stored::kBf16Uint16, "bf16 (uint16)"},
                                                  {Stored::kF32, "f32"},
                                                  {Stored::kF64, "f64"},
                                                  {Stored::kF16Big, "f16 (big-endian)"},
                                                  {Stored::kF32Big, "f32 (big-endian)"},
                                                  {Stored::kF64Big, "f64 (big-endian)"}};
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.125f, -1.5f, 0x1p-14f, 32768.f, infinity, -infinity, 0.f, 3.f};
  const TempFolder folder;
  for (const auto& [type, name] : names) {
    { DumpWriter(folder / "a.h5").Array("/x", {2, 4}, values, {type, {}, false}); }
    const Hid file(H5Fopen((folder / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    const StoredArray array = DescribeArray(file.get(), "a.h5", "/x", {});
    EXPECT_EQ(array.type.name, name);
    EXPECT_EQ(ReadFloats(file.get(), array, nullptr), values) << name;
  }
}

// Formula: f16 below 2^-14 is a multiple of 2^-24; HDF5's own reading is not used, so ours must do it.
TEST(HdfTypes, SubnormalHalf) {
  const TempFolder folder;
  const std::vector<float> values = {0x1p-24f, -3 * 0x1p-24f, 1023 * 0x1p-24f};
  { DumpWriter(folder / "a.h5").Array("/x", {3}, values); }
  const Hid file(H5Fopen((folder / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  EXPECT_EQ(ReadFloats(file.get(), DescribeArray(file.get(), "a.h5", "/x", {}), nullptr), values);
}

TEST(HdfTypes, OtherFloatsAreRefused) {
  const TempFolder folder;
  const Hid file(H5Fcreate((folder / "a.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const Hid odd(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_ebias(odd.get(), 100);
  const hsize_t extent = 4;
  const Hid space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
  for (const auto& [name, type] : {std::pair("bias", odd.get()), std::pair("long", H5T_NATIVE_LDOUBLE)}) {
    const Hid dataset(H5Dcreate2(file.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                      H5Dclose);
    EXPECT_THROW(IdentifyElement(dataset.get(), name), Error) << name;
  }
}

}  // namespace
}  // namespace so4cal
