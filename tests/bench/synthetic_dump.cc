// SPDX-License-Identifier: Apache-2.0
// Writes a dump of activations with the traits of real ones: a power-law spectrum in a random basis per head,
// an offset, a few loud channels, and tokens that resemble their predecessors.
//   synthetic_dump OUT LAYERS HEADS HEAD_DIM TOKENS
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "formats/kv_dump_writer.h"

namespace so4cal {
namespace {

// One head, [token][channel].
void FillHead(std::size_t tokens, std::size_t channels, unsigned seed, float* out) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> gauss;
  constexpr std::size_t kFactors = 12;  // loud directions; the rest is white
  std::vector<float> basis(kFactors * channels), mean(channels), gain(channels), factors(kFactors, 0.0f);
  for (float& v : basis) v = gauss(rng) / std::sqrt(static_cast<float>(channels));
  for (float& v : mean) v = 0.5f * gauss(rng);
  for (float& v : gain) v = 0.3f * std::exp(0.5f * gauss(rng));
  for (int i = 0; i < 3; ++i) gain[rng() % channels] *= 8;
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t k = 0; k < kFactors; ++k)
      factors[k] = 0.7f * factors[k] + 0.71f * gauss(rng) * 8.0f / static_cast<float>(k + 1);
    for (std::size_t c = 0; c < channels; ++c) {
      float v = mean[c] + gain[c] * gauss(rng);
      for (std::size_t k = 0; k < kFactors; ++k) v += basis[k * channels + c] * factors[k];
      out[t * channels + c] = v;
    }
  }
}

int Main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: synthetic_dump OUT LAYERS HEADS HEAD_DIM TOKENS\n");
    return 2;
  }
  const int num_layers = std::atoi(argv[2]), heads = std::atoi(argv[3]), head_dim = std::atoi(argv[4]);
  const auto tokens = static_cast<std::size_t>(std::atol(argv[5]));
  DumpHeader header{
      .model = "synthetic", .num_model_layers = num_layers, .num_tokens = tokens, .sequence_starts = {0}};
  header.layers.resize(static_cast<std::size_t>(num_layers));
  std::iota(header.layers.begin(), header.layers.end(), 0);
  WriteKvDump(argv[1], header, [&](int layer, Side side) {
    Activations a{heads, tokens, head_dim, {}};
    const auto per_head = tokens * static_cast<std::size_t>(head_dim);
    a.values.resize(static_cast<std::size_t>(heads) * per_head);
    for (int h = 0; h < heads; ++h)
      FillHead(tokens, static_cast<std::size_t>(head_dim),
               static_cast<unsigned>((layer * 2 + (side == Side::kValue)) * 1000 + h),
               a.values.data() + static_cast<std::size_t>(h) * per_head);
    return a;
  });
  return 0;
}

}  // namespace
}  // namespace so4cal

int main(int argc, char** argv) { return so4cal::Main(argc, argv); }
