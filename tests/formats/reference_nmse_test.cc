// SPDX-License-Identifier: Apache-2.0
// The codec on real activations against values of an independent implementation.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "formats/kv_dump.h"
#include "lib/distortion.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

constexpr std::size_t kSkip = 4;  // the reference leaves out the first four tokens

std::filesystem::path DumpFolder() {
  const char* set = std::getenv("SO4CAL_DUMPS");
  return set != nullptr ? std::filesystem::path(set)
                        : std::filesystem::path(SO4CAL_SOURCE_DIR) / "../shared/data/dumps";
}

std::vector<float> Mean(const HeadView& tokens) {
  std::vector<double> sum(static_cast<std::size_t>(tokens.channels));
  for (std::size_t t = 0; t < tokens.num_tokens; ++t)
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += static_cast<double>(tokens.row(t)[c]);
  std::vector<float> mean;
  for (const double s : sum) mean.push_back(static_cast<float>(s / static_cast<double>(tokens.num_tokens)));
  return mean;
}

// A key such as "hadamard|mean|lloyd8|mse": transform, offset, grid, scale rule.
struct Setting {
  CodecSpec codec;
  bool hadamard = false, offset = false;
};

Setting ParseSetting(const std::string& key, int head_dim) {
  std::istringstream in(key);
  std::string transform, offset, grid, scale;
  std::getline(in, transform, '|');
  std::getline(in, offset, '|');
  std::getline(in, grid, '|');
  std::getline(in, scale, '|');
  Setting s;
  s.hadamard = transform == "hadamard";
  s.offset = offset == "mean";
  s.codec = {.head_dim = head_dim,
             .bits = 3,
             .block = 32,
             .grid = grid == "lloyd8" ? GridKind::kLloyd : GridKind::kSymmetric,
             .scale = ParseName(ScaleRules(), scale, "scale")};
  return s;
}

double Nmse(const Setting& setting, const HeadView& tokens) {
  HeadTable table;
  table.transform.head_dim = tokens.channels;
  table.transform.hadamard = setting.hadamard;
  if (setting.offset) table.transform.offset = Mean(tokens);
  const HeadCodec codec(setting.codec, table);
  std::vector<std::uint8_t> rows(tokens.num_tokens * setting.codec.row_bytes());
  std::vector<float> decoded(tokens.num_tokens * static_cast<std::size_t>(tokens.channels));
  EXPECT_TRUE(codec.Encode(tokens, rows).ok());
  EXPECT_TRUE(codec.Decode(rows, decoded).ok());
  Distortion d;
  for (std::size_t t = 0; t < tokens.num_tokens; ++t)
    d.Add(tokens.row(t), std::span(decoded).subspan(t * tokens.row(t).size(), tokens.row(t).size()), {});
  return d.nmse();
}

// 0.1 %: the reference rounds to six decimals and computes in double, the codec in f32, so that a few codes
// next to a boundary differ.
TEST(ReferenceNmse, EveryHeadAndSettingAgreesToATenthOfAPerCent) {
  std::ifstream file(DumpFolder() / "reference_nmse.json");
  if (!file) GTEST_SKIP() << "SKIPPED: no reference_nmse.json in " << DumpFolder() << ": set SO4CAL_DUMPS";
  const auto reference = nlohmann::json::parse(file);
  int compared = 0;
  for (const auto& [dump_name, layers] : reference.items()) {
    const KvDump dump({DumpFolder() / dump_name}, {});
    for (const auto& [layer, sides] : layers.items())
      for (const Side side : kSides) {
        const Activations x = dump.Read(std::stoi(layer), side);
        for (const auto& [key, values] : sides.at(SideName(side)).items())
          for (int h = 0; h < x.num_heads; ++h) {
            const double want = values.at(static_cast<std::size_t>(h));
            const double got = Nmse(ParseSetting(key, x.channels), x.head(h).tokens(kSkip, x.num_tokens));
            EXPECT_NEAR(got, want, 1e-3 * want + 5e-7)
                << dump_name << " layer " << layer << " " << SideName(side) << " head " << h << " " << key;
            ++compared;
          }
      }
  }
  EXPECT_EQ(compared, 24 * 12);
}

}  // namespace
}  // namespace so4cal
