// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/error.h"
#include "tests/support/dump_writer.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using testing::DumpWriter;
using ::testing::ElementsAre;
using testing::ExactActivations;
using testing::TempFolder;

// The nearest `axes` counts: dataset before group before root.
TEST(OpenDumpFile, NearestAxes) {
  const TempFolder folder;
  const Activations a = ExactActivations(300, 300, 8, 1);
  {
    DumpWriter writer(folder / "a.h5");
    writer.Rows("/layers/0/k", {a}, "token,head,channel", {}, 1, true);
    writer.Rows("/layers/0/v", {a}, "head,token,channel", {}, 1, false);
    writer.Rows("/layers/1/k", {a}, "token,head,channel", {}, 1, false);
    writer.Rows("/layers/1/v", {a}, "token,head,channel", {}, 1, false);
    writer.Text("/", "axes", "token,head,channel");
    writer.Text("/layers/0", "axes", "head,token,channel");
  }
  const StoredFile file = OpenDumpFile(folder / "a.h5", {});
  EXPECT_EQ(AxesText(file.layers[0].k.axes), "token,head,channel");
  EXPECT_EQ(AxesText(file.layers[0].v.axes), "head,token,channel");
  EXPECT_EQ(AxesText(file.layers[1].k.axes), "token,head,channel");
  DumpOptions options;
  options.axes = "head,token,channel";
  EXPECT_EQ(AxesText(OpenDumpFile(folder / "a.h5", options).layers[0].k.axes), "head,token,channel");
}

// v and q that nothing says the axes of are read as k, although their own extents would not tell.
TEST(OpenDumpFile, AxesOfKeysHoldForTheRest) {
  const TempFolder folder;
  {
    DumpWriter writer(folder / "a.h5");
    for (const char* path : {"/layers/0/k", "/layers/0/v"})
      writer.Rows(path, {ExactActivations(1, 300, 8, 1)}, "head,token,channel", {}, 1, false);
    writer.Rows("/layers/0/q", {ExactActivations(300, 300, 8, 1)}, "head,token,channel", {}, 1, false);
  }
  EXPECT_EQ(AxesText(OpenDumpFile(folder / "a.h5", {}).layers[0].q->axes), "head,token,channel");
}

TEST(OpenDumpFile, BatchItemsAndGivenStartsAreAllStarts) {
  const TempFolder folder;
  {
    DumpWriter writer(folder / "a.h5");
    for (const char* path : {"/layers/0/k", "/layers/0/v"})
      writer.Rows(path, {ExactActivations(2, 300, 8, 1)}, "batch,head,token,channel", {}, 3);
    writer.Integers("/sequence_starts", {0, 50, 200});
  }
  EXPECT_THAT(OpenDumpFile(folder / "a.h5", {}).info.sequence_starts, ElementsAre(0, 50, 100, 200));
}

// One dataset for all layers: optional parts have the layer in front, attributes hold one number per layer.
TEST(OpenDumpFile, PartsOfStackedLayers) {
  const TempFolder folder;
  const std::vector<Activations> k = {ExactActivations(2, 256, 8, 1), ExactActivations(2, 256, 8, 2)};
  {
    DumpWriter writer(folder / "a.h5");
    for (const char* path : {"/k", "/v", "/q"}) writer.Rows(path, k, "layer,token,head,channel");
    std::vector<float> w_o(2 * 3 * 16);
    w_o[48] = 5;  // first of layer 1
    writer.Array("/w_o", {2, 3, 16}, w_o);
    writer.Array("/q_moment", {2, 2, 8, 8}, std::vector<float>(256, 1.f));
    writer.Numbers("/", "num_layers", {2});
    writer.Numbers("/", "softmax_scale", {0.5});
    writer.Numbers("/", "sliding_window", {0, 64});
  }
  const KvDump dump({folder / "a.h5"}, {});
  EXPECT_TRUE(dump.ReadQueries(1)->rows.values == k[1].values);
  EXPECT_EQ(dump.ReadOutputProjection(1)->values[0], 5);
  EXPECT_EQ(dump.ReadQueryMoment(1)->size(), 128u);
  EXPECT_EQ(dump.layer(1).softmax_scale, 0.5);
  EXPECT_FALSE(dump.layer(0).sliding_window.has_value());
  EXPECT_EQ(dump.layer(1).sliding_window, 64);
  EXPECT_NE(dump.Hashes(0)[0].at("k"), dump.Hashes(1)[0].at("k"));
}

}  // namespace
}  // namespace so4cal
