// SPDX-License-Identifier: Apache-2.0
// The codec beside ggml's types, one core, vectors of 128 channels, in one run: every operation is timed in
// turn, round after round, so that a busy machine is busy for all of them. Prints a Markdown table; `x` is
// the ratio of minima to the peer of the group. Built and run by ggml_bench.py.
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "lib/attend_rows.h"
#include "lib/convert.h"
#include "lib/decode_rows.h"
#include "lib/row_codec.h"
#include "tests/bench/f16_attention.h"
#include "tests/support/query_moments.h"

namespace so4cal {
namespace {

constexpr int kDim = 128;
constexpr std::size_t kRows = 256;          // vectors of a call, in the first or second cache
constexpr std::size_t kManyRows = 1 << 21;  // 256 MB and more of keys in fp16
constexpr int kRounds = 25;

struct Operation {
  std::string group, name;
  std::size_t vectors;  // per call
  std::function<void()> run;
  std::vector<double> ns{};  // per vector, one figure a round
};

double NsPerVector(const Operation& op) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kAtLeast = std::chrono::milliseconds(2);
  std::size_t calls = 0;
  const auto begin = Clock::now();
  auto now = begin;
  do {
    op.run();
    ++calls;
    now = Clock::now();
  } while (now - begin < kAtLeast);
  return std::chrono::duration<double, std::nano>(now - begin).count() /
         static_cast<double>(calls * op.vectors);
}

void PrintTable(std::vector<Operation>& ops) {
  std::printf("| what | vs | min ns | median ns | x |\n|---|---|---|---|---|\n");
  std::string group;
  double peer = 0;
  for (Operation& op : ops) {
    std::sort(op.ns.begin(), op.ns.end());
    if (op.group != group) peer = op.ns[0];  // the first of a group is the peer
    group = op.group;
    std::printf("| %s | %s | %.1f | %.1f | %.2f |\n", op.group.c_str(), op.name.c_str(), op.ns[0],
                op.ns[op.ns.size() / 2], op.ns[0] / peer);
  }
}

// --- ggml

struct Ggml {
  explicit Ggml(ggml_type t)
      : type(t),
        traits(ggml_get_type_traits(t)),
        cpu(ggml_get_type_traits_cpu(t)),
        row_bytes(ggml_row_size(t, kDim)) {}
  ggml_type type;
  const ggml_type_traits* traits;
  const ggml_type_traits_cpu* cpu;
  std::size_t row_bytes;  // of one vector; of q3_K's 256 values half

  std::vector<std::uint8_t> Quantized(const std::vector<float>& x) const {
    std::vector<std::uint8_t> out(ggml_row_size(type, static_cast<std::int64_t>(x.size())));
    cpu->from_float(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
    return out;
  }
};

void AddGgml(std::vector<Operation>& ops, const std::string& group, ggml_type type,
             const std::vector<float>& x) {
  const Ggml g(type);
  const auto size = static_cast<std::int64_t>(x.size());
  const std::string name = g.traits->type_name;
  std::vector<std::uint8_t> packed = g.Quantized(x);
  if (group == "encode")
    ops.push_back({group, name + " quantize", kRows,
                   [=]() mutable { g.cpu->from_float(x.data(), packed.data(), size); }});
  if (group == "decode")
    ops.push_back({group, name + " dequantize", kRows, [=, out = std::vector<float>(x.size())]() mutable {
                     g.traits->to_float(packed.data(), out.data(), size);
                   }});
  if (group == "scores") {
    const int n = g.traits->blck_size > kDim ? 2 * kDim : kDim;
    const std::vector<std::uint8_t> query =
        Ggml(g.cpu->vec_dot_type).Quantized(Noise(static_cast<std::size_t>(n), 4));
    const std::size_t step = ggml_row_size(type, n);
    ops.push_back({group, name + " vec_dot", kRows, [=, out = std::vector<float>(kRows)]() mutable {
                     for (std::size_t t = 0; t < kRows * kDim / static_cast<std::size_t>(n); ++t)
                       g.cpu->vec_dot(n, &out[t], 0, packed.data() + t * step, 0, query.data(), 0, 1);
                   }});
  }
}

// --- so4cal

HeadTable Table(bool butterfly, Rounding rounding) {
  HeadTable table;
  table.transform.head_dim = kDim;
  table.transform.offset = Noise(kDim, 2);
  table.transform.hadamard = !butterfly;
  table.transform.stages = butterfly ? HadamardStages(kDim) : IdentityStages(kDim, std::vector{1});
  table.rounding = rounding;
  if (rounding == Rounding::kNearest) return table;
  table.metric = QueryMoments(kDim, 3);
  table.damping = 0.1f;
  return table;
}

CodecSpec Spec(ScaleRule scale) { return {kDim, 3, 32, GridKind::kLloyd, scale}; }

void AddEncode(std::vector<Operation>& ops, const std::string& name, bool butterfly, ScaleRule scale,
               Rounding rounding, const std::vector<float>& x) {
  const auto codec = std::make_shared<HeadCodec>(Spec(scale), Table(butterfly, rounding));
  ops.push_back({"encode", "so4cal " + name, kRows,
                 [codec, &x, rows = std::vector<std::uint8_t>(kRows * codec->spec().row_bytes())]() mutable {
                   (void)codec->Encode({x.data(), kRows, kDim, kDim}, rows);
                 }});
}

std::vector<std::uint8_t> PackedRows(std::size_t num_rows) {
  const HeadCodec codec(Spec(ScaleRule::kAbsmax), Table(true, Rounding::kNearest));
  const std::vector<float> x = Noise(4096 * kDim, 1);
  std::vector<std::uint8_t> some(4096 * codec.spec().row_bytes()), rows;
  (void)codec.Encode({x.data(), 4096, kDim, kDim}, some);
  while (rows.size() < num_rows * codec.spec().row_bytes()) rows.insert(rows.end(), some.begin(), some.end());
  rows.resize(num_rows * codec.spec().row_bytes());
  return rows;
}

void AddDecode(std::vector<Operation>& ops) {
  const CodecSpec spec = Spec(ScaleRule::kAbsmax);
  const auto rows = PackedRows(kRows);
  ops.push_back({"decode", "so4cal, rotated frame", kRows,
                 [=, z = std::vector<float>(kRows * kDim)]() mutable { DecodeRotatedRows(spec, rows, z); }});
  const auto codec = std::make_shared<HeadCodec>(spec, Table(true, Rounding::kNearest));
  ops.push_back({"decode", "so4cal, full", kRows,
                 [=, x = std::vector<float>(kRows * kDim)]() mutable { (void)codec->Decode(rows, x); }});
}

void AddScores(std::vector<Operation>& ops, std::size_t queries) {
  const auto rows = PackedRows(kRows);
  const auto q = Noise(queries * kDim, 4);
  // Per query: the peers' vec_dot takes one.
  ops.push_back({"scores", "so4cal, " + std::to_string(queries) + " queries a pass", kRows * queries,
                 [=, out = std::vector<float>(queries * kRows)]() mutable {
                   ScoreRows(Spec(ScaleRule::kAbsmax), rows, q, out);
                 }});
}

void AddAttention(std::vector<Operation>& ops, const std::string& group, std::size_t num_rows) {
  constexpr std::size_t kQueries = 4, kCall = 2048;
  auto q = Noise(kQueries * kDim, 4);
  for (float& v : q) v /= 11.3f;
  const auto half = std::make_shared<std::vector<std::uint16_t>>(num_rows * kDim);
  const auto noise = Noise(4096 * kDim, 1);
  for (std::size_t at = 0; at < half->size(); at += noise.size())
    F32ToF16(std::span(noise).first(std::min(noise.size(), half->size() - at)),
             std::span(*half).subspan(at, std::min(noise.size(), half->size() - at)));
  ops.push_back({group, "f16, 4 queries", num_rows, [=, out = std::vector<float>(kQueries * kDim)]() mutable {
                   for (std::size_t t = 0; t < num_rows; t += kCall)
                     F16Attention(half->data() + t * kDim, half->data() + t * kDim,
                                  std::min(kCall, num_rows - t), kDim, q, out);
                 }});
  const auto rows = std::make_shared<std::vector<std::uint8_t>>(PackedRows(num_rows));
  ops.push_back(
      {group, "so4cal, 4 queries", num_rows, [=, out = std::vector<float>(kQueries * kDim)]() mutable {
         const CodecSpec spec = Spec(ScaleRule::kAbsmax);
         for (std::size_t t = 0; t < num_rows; t += kCall) {
           SoftmaxState state;
           const auto piece = std::span(*rows).subspan(t * spec.row_bytes(),
                                                       std::min(kCall, num_rows - t) * spec.row_bytes());
           AttendRows(spec, piece, spec, piece, q, state, out);
         }
       }});
}

void Run() {
  ggml_cpu_init();
  const std::vector<float> x = Noise(kRows * kDim, 1);
  std::vector<Operation> ops;
  for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q3_K})
    AddGgml(ops, "encode", type, x);
  for (const bool butterfly : {false, true})
    for (const ScaleRule scale : {ScaleRule::kAbsmax, ScaleRule::kMse})
      AddEncode(ops,
                std::string(butterfly ? "butterfly" : "one stage") +
                    (scale == ScaleRule::kMse ? ", mse" : ", absmax"),
                butterfly, scale, Rounding::kNearest, x);
  AddEncode(ops, "butterfly, mse, feedback", true, ScaleRule::kMse, Rounding::kFeedback, x);
  for (const ggml_type type : {GGML_TYPE_Q3_K, GGML_TYPE_Q4_0}) AddGgml(ops, "decode", type, x);
  AddDecode(ops);
  for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q3_K, GGML_TYPE_F16})
    AddGgml(ops, "scores", type, x);
  for (const std::size_t queries : {1, 4}) AddScores(ops, queries);
  AddAttention(ops, "attention, 2,048 tokens", 2048);
  AddAttention(ops, "attention, from memory", kManyRows);
  for (int round = 0; round < kRounds; ++round)
    for (Operation& op : ops) op.ns.push_back(NsPerVector(op));
  PrintTable(ops);
  std::printf("\nbytes per vector: so4cal %zu, q4_0 %zu, q3_K %zu, f16 %d\n",
              Spec(ScaleRule::kMse).row_bytes(), ggml_row_size(GGML_TYPE_Q4_0, kDim),
              ggml_row_size(GGML_TYPE_Q3_K, 2 * kDim) / 2, 2 * kDim);
}

}  // namespace
}  // namespace so4cal

int main() { so4cal::Run(); }
