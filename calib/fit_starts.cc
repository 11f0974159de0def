// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_starts.h"

#include <memory>
#include <random>

#include "calib/block_parameters.h"

namespace so4cal {
namespace {

std::mt19937_64 Generator(std::uint64_t seed, int index) {
  std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(index)};
  return std::mt19937_64(words);
}

}  // namespace

std::vector<std::int8_t> SeededSigns(int head_dim, std::uint64_t seed, int index) {
  std::mt19937_64 random = Generator(seed, index);
  std::vector<std::int8_t> signs(static_cast<std::size_t>(head_dim));
  for (std::int8_t& sign : signs) sign = (random() >> 63) != 0 ? std::int8_t{1} : std::int8_t{-1};
  return signs;
}

std::vector<Stage> PerturbedStages(Family family, const std::vector<Stage>& start, std::uint64_t seed,
                                   int index) {
  std::mt19937_64 random = Generator(seed, index);
  std::normal_distribution<double> step(0, 0.5);
  std::vector<Stage> stages = start;
  for (Stage& stage : stages) {
    const BlockParameters blocks(family, static_cast<int>(stage.blocks.size()));
    const std::unique_ptr<ceres::Manifold> manifold = blocks.MakeManifold();
    const std::vector<double> at = blocks.FromBlocks(stage.blocks);
    std::vector<double> delta(static_cast<std::size_t>(manifold->TangentSize())), moved(at.size());
    for (double& d : delta) d = step(random);
    manifold->Plus(at.data(), delta.data(), moved.data());
    stage.blocks = blocks.ToBlocks(moved);
  }
  return stages;
}

}  // namespace so4cal
