// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"
#include "tests/support/dump_writer.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using testing::DumpWriter;
using ::testing::HasSubstr;
using testing::TempFolder;

// Layers found in a file that has these datasets, as "number key value group; ...", or the error.
std::string Found(const std::vector<std::string>& datasets, const std::vector<hsize_t>& extents,
                  const DumpOptions& options = {}) {
  const TempFolder folder;
  {
    DumpWriter writer(folder / "a.h5");
    std::size_t size = 1;
    for (const hsize_t extent : extents) size *= extent;
    for (const std::string& path : datasets) writer.Array(path, extents, std::vector<float>(size));
  }
  const Hid file(H5Fopen((folder / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  std::string text;
  try {
    for (const LayerPaths& p : FindLayers(file.get(), "a.h5", options))
      text += std::to_string(p.layer) + " " + p.key + " " + p.value + " " + p.group + "; ";
  } catch (const Error& error) {
    return error.what();
  }
  return text;
}

TEST(FindLayers, GroupsByNumber) {
  EXPECT_EQ(Found({"/layers/10/k", "/layers/10/v", "/layers/9/k", "/layers/9/v"}, {2, 2, 8}),
            "9 /layers/9/k /layers/9/v /layers/9; 10 /layers/10/k /layers/10/v /layers/10; ");
  EXPECT_EQ(Found({"/layers/007/k", "/layers/007/v"}, {2, 2, 8}),
            "7 /layers/007/k /layers/007/v /layers/007; ");
  EXPECT_THAT(Found({"/layers/-1/k"}, {2, 2, 8}), HasSubstr("called by the layer's number"));
  EXPECT_THAT(Found({"/layers/99999999999/k"}, {2, 2, 8}), HasSubstr("called by the layer's number"));
}

TEST(FindLayers, Templates) {
  DumpOptions options;
  options.key_name = "a{layer}b/k{layer}";
  options.value_name = "a{layer}b/v";
  EXPECT_EQ(Found({"/a3b/k3", "/a3b/v", "/axb/k", "/a3/k3"}, {2, 2, 8}, options), "3 /a3b/k3 /a3b/v /a3b; ");
  EXPECT_THAT(Found({"/a3/k3"}, {2, 2, 8}, options),
              HasSubstr("no layer has the dataset /a{layer}b/k{layer}"));
  options.key_name = "k_{layer}";
  options.value_name = "v_{layer}";
  EXPECT_EQ(Found({"/k_0", "/v_0"}, {2, 2, 8}, options), "0 /k_0 /v_0 ; ");  // no group of its own
}

TEST(FindLayers, AllInOneDataset) {
  EXPECT_EQ(Found({"/k", "/v"}, {2, 4, 2, 8}), "0 /k /v /; 1 /k /v /; ");
  EXPECT_THAT(Found({"/k", "/v"}, {4, 2, 8}), HasSubstr("expected the axes layer,token,head,channel"));
  EXPECT_THAT(Found({"/k"}, {2, 4, 2, 8}), HasSubstr("expected the dataset /v"));
  EXPECT_THAT(Found({"/x"}, {4}), HasSubstr("expected the group /layers, or /k with a layer axis, found x"));
}

}  // namespace
}  // namespace so4cal
