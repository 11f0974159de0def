// SPDX-License-Identifier: Apache-2.0
// Decoding and attention on packed rows, one core, 3 bits, blocks of 32, `lloyd`. The time of an iteration is
// that of one row (one token of one KV head). `f16`: the same on keys and values in fp16, converted in
// registers, the baseline. `q`: query heads that share a KV head. `rows`: 2,048 stay in the second cache,
// 262,144 (of 32 heads) come from memory.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lib/attend_rows.h"
#include "lib/convert.h"
#include "lib/decode_rows.h"
#include "lib/half.h"
#include "lib/row_codec.h"
#include "tests/bench/f16_attention.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

constexpr CodecSpec kSpec{128, 3, 32, GridKind::kLloyd, ScaleRule::kMse};
constexpr std::size_t kDim = 128;
constexpr std::size_t kCall = 2048;  // rows of one head in a call

std::vector<std::uint8_t> PackedRows(std::size_t num_rows, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> rows(num_rows * kSpec.row_bytes());
  for (std::uint8_t& byte : rows) byte = static_cast<std::uint8_t>(random());
  for (std::size_t r = 0; r < num_rows; ++r)
    for (std::size_t b = 0; b < 4; ++b)
      rows[r * kSpec.row_bytes() + 2 * b + 1] = 0x30;  // scales of 0.125 to 0.25
  return rows;
}

std::vector<std::uint16_t> HalfRows(std::size_t num_rows, unsigned seed) {
  std::vector<std::uint16_t> rows(num_rows * kDim);
  F32ToF16(Noise(rows.size(), seed), rows);
  return rows;
}

std::vector<float> Queries(std::size_t count) {
  std::vector<float> q = Noise(count * kDim, 3);
  for (float& x : q) x /= std::sqrt(static_cast<float>(kDim));
  return q;
}

void DecodeRotated(benchmark::State& state) {
  const auto rows = PackedRows(64, 1);
  std::vector<float> z(64 * kDim);
  while (state.KeepRunningBatch(64)) {
    DecodeRotatedRows(kSpec, rows, z);
    benchmark::DoNotOptimize(z.data());
  }
}

void Decode(benchmark::State& state) {
  HeadTable table;
  table.transform.head_dim = static_cast<int>(kDim);
  table.transform.stages = HadamardStages(static_cast<int>(kDim));
  const HeadCodec codec(kSpec, table);
  const auto rows = PackedRows(64, 1);
  std::vector<float> x(64 * kDim);
  while (state.KeepRunningBatch(64)) {
    if (!codec.Decode(rows, x).ok()) state.SkipWithError("not decoded");
    benchmark::DoNotOptimize(x.data());
  }
}

// Calls body(first row) for all of `num_rows`, kCall at a time, as an engine goes from head to head.
template <class Body>
void EachCall(benchmark::State& state, std::size_t num_rows, const Body& body) {
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(num_rows)))
    for (std::size_t first = 0; first < num_rows; first += kCall) body(first);
}

void PackedScores(benchmark::State& state, std::size_t num_queries, std::size_t num_rows) {
  const auto rows = PackedRows(num_rows, 1);
  const auto q = Queries(num_queries);
  std::vector<float> scores(num_queries * kCall);
  EachCall(state, num_rows, [&](std::size_t first) {
    ScoreRows(kSpec, std::span(rows).subspan(first * kSpec.row_bytes(), kCall * kSpec.row_bytes()), q,
              scores);
    benchmark::DoNotOptimize(scores.data());
  });
}

void HalfScores(benchmark::State& state, std::size_t num_queries, std::size_t num_rows) {
  const auto rows = HalfRows(num_rows, 1);
  const auto q = Queries(num_queries);
  std::vector<float> scores(num_queries * kCall);
  EachCall(state, num_rows, [&](std::size_t first) {
    F16Scores(rows.data() + first * kDim, kCall, kDim, q, scores);
    benchmark::DoNotOptimize(scores.data());
  });
}

void PackedAttention(benchmark::State& state, std::size_t num_queries, std::size_t num_rows) {
  const auto k = PackedRows(num_rows, 1), v = PackedRows(num_rows, 2);
  const auto q = Queries(num_queries);
  std::vector<float> out(num_queries * kDim);
  EachCall(state, num_rows, [&](std::size_t first) {
    const std::size_t at = first * kSpec.row_bytes(), bytes = kCall * kSpec.row_bytes();
    SoftmaxState softmax;
    AttendRows(kSpec, std::span(k).subspan(at, bytes), kSpec, std::span(v).subspan(at, bytes), q, softmax,
               out);
    benchmark::DoNotOptimize(out.data());
  });
}

void HalfAttention(benchmark::State& state, std::size_t num_queries, std::size_t num_rows) {
  const auto k = HalfRows(num_rows, 1), v = HalfRows(num_rows, 2);
  const auto q = Queries(num_queries);
  std::vector<float> out(num_queries * kDim);
  EachCall(state, num_rows, [&](std::size_t first) {
    F16Attention(k.data() + first * kDim, v.data() + first * kDim, kCall, kDim, q, out);
    benchmark::DoNotOptimize(out.data());
  });
}

void Register() {
  benchmark::RegisterBenchmark("decode_rotated", DecodeRotated);
  benchmark::RegisterBenchmark("decode", Decode);
  for (const std::size_t rows : {std::size_t{2048}, std::size_t{262144}})
    for (const std::size_t q : {1, 4}) {
      const std::string name = "/q:" + std::to_string(q) + "/rows:" + std::to_string(rows);
      benchmark::RegisterBenchmark(("scores/packed" + name).c_str(), PackedScores, q, rows);
      benchmark::RegisterBenchmark(("scores/f16" + name).c_str(), HalfScores, q, rows);
      benchmark::RegisterBenchmark(("attention/packed" + name).c_str(), PackedAttention, q, rows);
      benchmark::RegisterBenchmark(("attention/f16" + name).c_str(), HalfAttention, q, rows);
    }
}

}  // namespace
}  // namespace so4cal

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  so4cal::Register();
  benchmark::RunSpecifiedBenchmarks();
}
