// SPDX-License-Identifier: Apache-2.0
// Writes sample tables of every family in every export format, for the Python scripts beside this file.
#include <cstdio>
#include <filesystem>

#include "formats/exporters.h"
#include "lib/error.h"
#include "tests/support/sample_table.h"

namespace {

using so4cal::testing::SampleOptions;

void WriteAll(const SampleOptions& options, const std::filesystem::path& stem) {
  const so4cal::RotationTable table = so4cal::testing::SampleTable(options);
  for (const so4cal::Exporter& exporter : so4cal::Exporters()) {
    const std::filesystem::path out =
        stem.string() + std::string(exporter.folder() ? ".oscar" : exporter.extension);
    std::filesystem::remove_all(out);
    try {
      exporter.write(table, out);
    } catch (const so4cal::Error&) {  // what a format can't carry is told by its own tests
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    std::filesystem::create_directories(folder);
    for (const auto& family : so4cal::Families()) {
      const std::string name(family.name);
      WriteAll({.family = family.value, .head_dim = 64, .value_dim = 48, .block = 16, .signs = true},
               folder / name);
    }
    WriteAll({.head_dim = 32, .rounding = so4cal::Rounding::kRefined, .offset = false}, folder / "metric");
    WriteAll({.head_dim = 64, .value_dim = 48, .block = 16, .offset = false}, folder / "per_head");
    WriteAll({.head_dim = 64, .value_dim = 48, .block = 16, .offset = false, .shared = true},
             folder / "per_layer");
    WriteAll({.head_dim = 128, .value_dim = 128, .num_heads = 2, .layers = {5}, .block = 32},
             folder / "d128");
  } catch (const so4cal::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
