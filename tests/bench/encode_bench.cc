// SPDX-License-Identifier: Apache-2.0
// What encoding costs per vector: one core, 3 bits, blocks of 32, `lloyd`, butterfly and offset, mse scales.
// The time of an iteration is that of one vector. `reference` is the plain loop of tests/reference/ on
// vectors that are rotated already; `rows` is the number of vectors in a call.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/row_codec.h"
#include "lib/transform.h"
#include "tests/reference/encode_row.h"
#include "tests/support/query_moments.h"

namespace so4cal {
namespace {

constexpr unsigned kSeed = 190;

struct Setting {
  std::string name;
  Rounding rounding;
  int rounds;
  ScaleRule scale;
};

CodecSpec SpecOf(int head_dim, const Setting& s) { return {head_dim, 3, 32, GridKind::kLloyd, s.scale}; }

HeadTable TableOf(int head_dim, const Setting& s) {
  HeadTable table;
  table.transform.head_dim = head_dim;
  table.transform.stages = HadamardStages(head_dim);
  table.transform.offset = Noise(static_cast<std::size_t>(head_dim), kSeed + 1);
  table.rounding = s.rounding;
  if (s.rounding == Rounding::kNearest) return table;
  table.metric = QueryMoments(static_cast<std::size_t>(head_dim), kSeed);
  table.damping = 0.01f;
  table.rounds = s.rounds;
  return table;
}

void Encode(benchmark::State& state, int head_dim, const Setting& s, std::size_t rows) {
  const auto n = static_cast<std::size_t>(head_dim);
  const HeadCodec codec(SpecOf(head_dim, s), TableOf(head_dim, s));
  const std::vector<float> x = Noise(rows * n, kSeed + 2);
  std::vector<std::uint8_t> out(rows * codec.spec().row_bytes());
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(rows))) {
    if (!codec.Encode({x.data(), rows, n, head_dim}, out).ok()) state.SkipWithError("not encoded");
    benchmark::DoNotOptimize(out.data());
  }
}

void Reference(benchmark::State& state, int head_dim, const Setting& s) {
  const auto n = static_cast<std::size_t>(head_dim);
  const CodecSpec spec = SpecOf(head_dim, s);
  const HeadTable table = TableOf(head_dim, s);
  std::optional<reference::RowRounding> rounding;
  if (s.rounding != Rounding::kNearest)
    rounding.emplace(spec, RotatedMetric(DenseMatrix(table.transform), table.metric, 0.01, n), s.rounds);
  const std::vector<float> z = Noise(64 * n, kSeed + 2);
  std::vector<std::uint8_t> out(spec.row_bytes());
  while (state.KeepRunningBatch(64))
    for (std::size_t t = 0; t < 64; ++t) {
      reference::EncodeRow(spec, rounding, std::span(z).subspan(t * n, n), out);
      benchmark::DoNotOptimize(out.data());
    }
}

void RegisterAll() {
  const Setting settings[] = {{"nearest_absmax", Rounding::kNearest, 0, ScaleRule::kAbsmax},
                              {"nearest", Rounding::kNearest, 0, ScaleRule::kMse},
                              {"feedback", Rounding::kFeedback, 0, ScaleRule::kMse},
                              {"refined1", Rounding::kRefined, 1, ScaleRule::kMse},
                              {"refined2", Rounding::kRefined, 2, ScaleRule::kMse}};
  for (const int head_dim : {64, 128, 256})
    for (const Setting& s : settings) {
      const std::string name = "d" + std::to_string(head_dim) + "/" + s.name;
      benchmark::RegisterBenchmark((name + "/reference").c_str(),
                                   [=](benchmark::State& state) { Reference(state, head_dim, s); });
      for (const std::size_t rows : {std::size_t{1}, std::size_t{256}})
        benchmark::RegisterBenchmark((name + "/rows:" + std::to_string(rows)).c_str(),
                                     [=](benchmark::State& state) { Encode(state, head_dim, s, rows); });
    }
}

}  // namespace
}  // namespace so4cal

int main(int argc, char** argv) {
  so4cal::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
