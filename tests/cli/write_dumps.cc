// SPDX-License-Identifier: Apache-2.0
// Writes the dumps of shapes_test.py and refuse_test.py, small ones of every shape and type.
//   write_dumps FOLDER
// or one small dump with many layers, for the tests of shards.
//   write_dumps FILE LAYERS
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>

#include "tests/support/dump_writer.h"
#include "tests/support/random_data.h"

namespace so4cal::testing {
namespace {

constexpr std::size_t kTokens = 288;

enum class Ask { kNothing, kQueries, kSomeQueries, kMoment };

struct Dump {
  const char* name;
  int key_channels, value_channels, kv_heads;
  Stored type;
  const char* axes;
  bool packed;  // chunked, shuffled and compressed
  Ask ask;
};
constexpr Dump kDumps[] = {
    {"d64", 64, 64, 2, Stored::kF16, "token,head,channel", false, Ask::kQueries},
    {"d80", 80, 64, 1, Stored::kBf16Float, "head,token,channel", true, Ask::kMoment},
    {"d96", 96, 96, 2, Stored::kBf16Opaque, "token,head,channel", true, Ask::kNothing},
    {"d112", 112, 128, 1, Stored::kBf16Uint16, "token,head,channel", false, Ask::kSomeQueries},
    {"d128", 128, 128, 2, Stored::kF32, "batch,head,token,channel", true, Ask::kMoment},
    {"d192", 192, 128, 1, Stored::kF16, "batch,token,head,channel", false, Ask::kSomeQueries},
    {"d256", 256, 256, 1, Stored::kBf16Float, "token,head,channel", false, Ask::kNothing},
    {"heads32", 64, 64, 32, Stored::kF16, "head,token,channel", true, Ask::kNothing},
};

// Gaussian with a mean and a gain per channel: not what a Hadamard transform is best for.
Activations Rows(int heads, std::size_t tokens, int channels, unsigned seed) {
  const std::size_t per_head = tokens * static_cast<std::size_t>(channels);
  Activations a{heads, tokens, channels, Noise(static_cast<std::size_t>(heads) * per_head, seed)};
  const std::vector<float> gain = Noise(static_cast<std::size_t>(channels), seed + 1);
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const std::size_t c = i % static_cast<std::size_t>(channels);
    a.values[i] = a.values[i] * (0.3f + std::abs(gain[c])) + gain[c];
  }
  return a;
}

// E[q q^T] of random queries, one matrix per KV head.
std::vector<float> Moments(int heads, int channels, unsigned seed) {
  const auto d = static_cast<std::size_t>(channels);
  std::vector<float> moments;
  for (int h = 0; h < heads; ++h) {
    const Activations q = Rows(1, 64, channels, seed + static_cast<unsigned>(h));
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j < d; ++j) {
        float sum = 0;
        for (std::size_t t = 0; t < 64; ++t) sum += q.values[t * d + i] * q.values[t * d + j];
        moments.push_back(sum / 64);
      }
  }
  return moments;
}

void WriteAsk(DumpWriter& file, const Dump& dump, const std::string& group, unsigned layer,
              unsigned query_seed) {
  const unsigned seed = query_seed + layer;
  const int query_heads = 2 * dump.kv_heads;
  const auto columns = static_cast<std::size_t>(query_heads * dump.value_channels);
  if (dump.ask == Ask::kNothing) return;
  file.Array(group + "/w_o", {48, columns}, Noise(48 * columns, layer + 500));
  if (dump.ask == Ask::kMoment) {
    const auto d = static_cast<hsize_t>(dump.key_channels);
    file.Array(group + "/q_moment", {static_cast<hsize_t>(dump.kv_heads), d, d},
               Moments(dump.kv_heads, dump.key_channels, seed), {Stored::kF32, {}, false});
  } else if (dump.ask == Ask::kQueries) {
    file.Rows(group + "/q", {Rows(query_heads, kTokens, dump.key_channels, seed)}, dump.axes, {dump.type});
  } else {
    std::vector<std::int64_t> positions;
    for (std::int64_t at = 8; at < static_cast<std::int64_t>(kTokens); at += 4) positions.push_back(at);
    file.Rows(group + "/q", {Rows(query_heads, positions.size(), dump.key_channels, seed)},
              "token,head,channel", {dump.type});
    file.Integers(group + "/q_positions", positions);
  }
}

// query_seed: with another, the same keys and values get other queries.
void Write(const std::filesystem::path& path, const Dump& dump, unsigned query_seed) {
  DumpWriter file(path);
  file.Text("/", "model", dump.name);
  file.Numbers("/", "num_layers", {9});
  const hsize_t batches = std::string_view(dump.axes).starts_with("batch") ? 2 : 1;
  for (const unsigned layer : {3u, 7u}) {
    const std::string group = "/layers/" + std::to_string(layer);
    Storage storage{dump.type, {}, dump.packed};
    if (dump.packed) storage.chunks.assign(batches == 1 ? 3 : 4, 32);
    file.Rows(group + "/k", {Rows(dump.kv_heads, kTokens, dump.key_channels, layer)}, dump.axes, storage,
              batches);
    file.Rows(group + "/v", {Rows(dump.kv_heads, kTokens, dump.value_channels, layer + 100)}, dump.axes,
              storage, batches);
    WriteAsk(file, dump, group, layer, query_seed);
  }
}

void WriteManyLayers(const std::filesystem::path& path, unsigned num_layers) {
  DumpWriter file(path);
  file.Text("/", "model", "many layers");
  file.Numbers("/", "num_layers", {static_cast<double>(num_layers)});
  for (unsigned layer = 0; layer < num_layers; ++layer) {
    const std::string group = "/layers/" + std::to_string(layer);
    file.Rows(group + "/k", {Rows(2, kTokens, 32, layer)}, "token,head,channel", {Stored::kF16});
    file.Rows(group + "/v", {Rows(2, kTokens, 32, layer + 1000)}, "token,head,channel", {Stored::kF16});
  }
}

}  // namespace
}  // namespace so4cal::testing

int main(int argc, char** argv) {
  using namespace so4cal::testing;
  if (argc == 3) {
    WriteManyLayers(argv[1], static_cast<unsigned>(std::atoi(argv[2])));
    return 0;
  }
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_dumps FOLDER | write_dumps FILE LAYERS\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const Dump& dump : kDumps) Write(folder / (std::string(dump.name) + ".h5"), dump, 200);
  Dump other = kDumps[0];
  Write(folder / "d64_other_q.h5", other, 300);
  other.ask = Ask::kNothing;
  Write(folder / "d64_no_q.h5", other, 200);
  other.kv_heads = 1;
  Write(folder / "d64_one_head.h5", other, 200);
  return 0;
}
