// SPDX-License-Identifier: Apache-2.0
// The three real dumps that lie beside the repository, against what h5py and Python's xxhash read from them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "formats/kv_dump.h"

namespace so4cal {
namespace {

// One dataset of a dump.
struct Spot {
  const char* dump;
  int layer;
  const char* name;
  double value;  // [517, last head, 5], or [17, 5] of w_o
  // Of all values; exact in any order, since multiples of 2^-24 below 2^28 add up without rounding.
  double sum;
  const char* hash;
};
const Spot kSpots[] = {
    {"smollm2_135m", 0, "k", 0.08453369140625, -15569.304700255394, "d2f94e44b6c0ab2852cc09bb5c27cb19"},
    {"smollm2_135m", 0, "v", -0.0455322265625, 455.2885085940361, "40af1c096e070a7d748257b936de63eb"},
    {"smollm2_135m", 0, "q", -0.33056640625, -17491.120552241802, "6e9788c76343b94eba7c8aac0d7e3275"},
    {"smollm2_135m", 0, "w_o", -0.12158203125, 22.638439178466797, "e6dacc8042c1552bac21b7c879cf96f0"},
    {"smollm2_135m", 15, "k", 0.1409912109375, -57137.08661353588, "5d9b77cc25514e439ef8e2f548ac3b39"},
    {"smollm2_135m", 15, "v", -0.230712890625, 5487.747177660465, "6367bdbc25dbe0c164b2aa25ca889705"},
    {"smollm2_135m", 15, "q", 0.474365234375, 24818.087621450424, "2bceb3dcb0126356b66078460f762ba8"},
    {"smollm2_135m", 15, "w_o", -0.1170654296875, 50.94196319580078, "bbd4efe997b23394de463cef868979bd"},
    {"gemma3_270m", 5, "k", 0.61962890625, 42866.838798344135, "36af52df3ed4045027579ee0fbede7d6"},
    {"gemma3_270m", 5, "v", 0.529296875, -11348.06830638647, "4815187e094ba08b52233495394b5f81"},
    {"gemma3_270m", 5, "q", -1.2412109375, -92115.60978388786, "6c517a003f58ba277d4c42619b79914f"},
    {"gemma3_270m", 5, "w_o", -0.0090179443359375, -48.10278880596161, "a8af34dadb6634050630a836c55c9d9a"},
    {"gemma3_270m", 8, "k", 0.76806640625, 23500.355492770672, "9b9ea9aff6cc28e60782ce7a78e57a97"},
    {"gemma3_270m", 8, "v", -0.5517578125, 12459.304037630558, "9da16cfa3037b209bfd3883e56b25f18"},
    {"gemma3_270m", 8, "q", 0.61328125, 52569.81228643656, "ca1fea75566b190fce261b0207775600"},
    {"gemma3_270m", 8, "w_o", 0.0692138671875, 3.6241161823272705, "7e609d60dc05d8ec42172656d0e3f6dc"},
    {"qwen25_coder_05b", 0, "k", 3.57421875, 597536.9833245873, "23e522f1e7c0f261276e86302f69aa10"},
    {"qwen25_coder_05b", 0, "v", 0.04241943359375, 265.39604127407074, "a7c5150702c5b353e94d8a23af047fed"},
    {"qwen25_coder_05b", 0, "q", 0.5068359375, 38815.43819928169, "0675659b4373fd3e9a1d8ca5cf9aa24d"},
    {"qwen25_coder_05b", 0, "w_o", 0.0, 8.715837001800537, "68fd007945bb491202ec9f4a18d75d09"},
    {"qwen25_coder_05b", 12, "k", -2.041015625, -4304.990934550762, "58615f1f9e193cb1ab78a044b26a00fe"},
    {"qwen25_coder_05b", 12, "v", -0.2142333984375, 1869.0858967900276, "1e6b638f3f0d7c77557dc3eca87b4ed8"},
    {"qwen25_coder_05b", 12, "q", 0.61083984375, 169460.12255305052, "7109c809283e13ea42b3eec33ebde32d"},
    {"qwen25_coder_05b", 12, "w_o", 0.01297760009765625, -19.107430934906006,
     "bf0953db3506de25ab81cb0d9acc36d5"},
};

std::filesystem::path Folder() {
  const char* set = std::getenv("SO4CAL_DUMPS");
  return set != nullptr ? set : SO4CAL_SOURCE_DIR "/../shared/data/dumps";
}

double Sum(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x);
  return sum;
}

class RealDump : public ::testing::TestWithParam<Spot> {};

TEST_P(RealDump, ReadsWhatH5pyReads) {
  const Spot& spot = GetParam();
  const auto path = Folder() / (std::string(spot.dump) + ".h5");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "NOT TESTED: no " << path << "; set SO4CAL_DUMPS to the folder of the real dumps";
  const KvDump dump({path}, {});
  const std::string name = spot.name;
  if (name == "w_o") {
    const KvDump::Matrix matrix = dump.ReadOutputProjection(spot.layer).value();
    EXPECT_EQ(matrix.values[17 * matrix.cols + 5], spot.value);
    EXPECT_EQ(Sum(matrix.values), spot.sum);
  } else {
    const Activations rows = name == "q" ? dump.ReadQueries(spot.layer).value().rows
                                         : dump.Read(spot.layer, name == "k" ? Side::kKey : Side::kValue);
    EXPECT_EQ(rows.num_tokens, 1024u);
    EXPECT_EQ(rows.head(rows.num_heads - 1).row(517)[5], spot.value);
    EXPECT_EQ(Sum(rows.values), spot.sum);
  }
  EXPECT_EQ(dump.Hashes(spot.layer)[0].at(name), spot.hash);
}
INSTANTIATE_TEST_SUITE_P(All, RealDump, ::testing::ValuesIn(kSpots), [](const auto& test) {
  return std::string(test.param.dump) + "_" + std::to_string(test.param.layer) + "_" + test.param.name;
});

TEST(RealDumps, Attributes) {
  const auto path = Folder() / "gemma3_270m.h5";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "NOT TESTED: no " << path << "; set SO4CAL_DUMPS to the folder of the real dumps";
  const KvDump dump({path}, {});
  EXPECT_EQ(dump.model(), "Gemma-3-270M (Q4_K_M weights)");
  EXPECT_EQ(dump.num_model_layers(), 18);
  EXPECT_EQ(dump.layers().size(), 2u);
  EXPECT_FALSE(dump.layer(5).sliding_window.has_value());
  EXPECT_EQ(dump.layer(8).sliding_window, 512);
  EXPECT_EQ(dump.layer(8).softmax_scale, 1. / 16);
  EXPECT_EQ(dump.layer(8).k.filters, "shuffle, deflate 4");
  EXPECT_EQ(dump.layer(8).k.dtype, "f16");
  EXPECT_EQ(dump.layer(8).q->num_heads, 4);
}

}  // namespace
}  // namespace so4cal
