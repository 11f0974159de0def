// SPDX-License-Identifier: Apache-2.0
// Property: each file of tests/golden/bad/dumps, made by make_bad_dumps.py with one defect, is refused with
// one line that names the file and has the words of expected.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/kv_dump.h"
#include "lib/error.h"

namespace so4cal {
namespace {

const std::filesystem::path kFolder = SO4CAL_SOURCE_DIR "/tests/golden/bad/dumps";

struct BadDump {
  std::string name;
  std::vector<std::string> words;
};
void PrintTo(const BadDump& bad, std::ostream* out) { *out << bad.name; }

std::vector<BadDump> BadDumps() {
  std::vector<BadDump> all;
  std::ifstream in(kFolder / "expected.json");
  const auto expected = nlohmann::json::parse(in);
  for (const auto& [name, words] : expected.items()) all.push_back({name, words});
  return all;
}

class Bad : public ::testing::TestWithParam<BadDump> {};

// Everything that the reader can read.
void ReadAll(const std::filesystem::path& path) {
  const KvDump dump({path}, {});
  for (const LayerInfo& info : dump.layers()) {
    for (const Side side : kSides) dump.Read(info.layer, side);
    dump.ReadQueries(info.layer);
    dump.ReadQueryMoment(info.layer);
    dump.ReadOutputProjection(info.layer);
    dump.Hashes(info.layer);
  }
}

TEST_P(Bad, IsRefusedInOneClearLine) {
  const auto path = kFolder / GetParam().name;
  ::testing::internal::CaptureStderr();
  std::string message = "no error";
  try {
    ReadAll(path);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");  // HDF5 prints nothing by itself
  EXPECT_THAT(message, ::testing::StartsWith(path.string()));
  EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr("\n")));
  for (const std::string& word : GetParam().words) EXPECT_THAT(message, ::testing::HasSubstr(word));
}
INSTANTIATE_TEST_SUITE_P(All, Bad, ::testing::ValuesIn(BadDumps()), [](const auto& test) {
  return test.param.name.substr(0, test.param.name.find('.'));
});

TEST(BadDumps, AllAreTested) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    files += entry.path().extension() == ".h5";
  EXPECT_EQ(files, BadDumps().size());
  EXPECT_GT(files, 40u);
}

}  // namespace
}  // namespace so4cal
