// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "lib/rotation_table.h"

namespace so4cal::testing {

// What to vary in a sample table; everything else in it is random and valid.
struct SampleOptions {
  Family family = Family::kButterfly;
  int head_dim = 16, value_dim = 16;
  int num_heads = 3;
  std::vector<int> layers = {0, 2};
  int bits = 3;
  int block = 8;
  GridKind grid = GridKind::kLloyd;
  ScaleRule scale = ScaleRule::kMse;
  Rounding rounding = Rounding::kNearest;  // feedback and refined come with a metric
  bool signs = false;                      // in all heads but the first
  bool offset = true;
  bool shared = false;
  std::uint64_t seed = 1;
};

class SampleMaker {
 public:
  explicit SampleMaker(const SampleOptions& options) : options_(options), random_(options.seed) {}

  RotationTable Make() {
    RotationTable table;
    table.tool_version = "0.1.0";
    table.model = "sample \"model\" \xC3\xA9";
    table.num_model_layers = options_.layers.back() + 1;
    table.dump_layers.assign(options_.layers.begin(), options_.layers.end());
    table.seed = ~std::uint64_t{0};  // does not fit a double or a signed number
    table.options_json = "{\"bits\":{\"k\":3,\"v\":3}}";
    table.simd_target = "AVX2";
    table.dumps = {{"a.h5", 123456789, 1000, {{{4, 700}}, {{700, 850}}, {{850, 1000}}}},
                   {"b.h5", 1, 600, {{{4, 100}, {200, 300}}, {}, {{400, 600}}}}};
    for (const int layer : options_.layers) table.layers.push_back(MakeLayer(layer));
    return table;
  }

 private:
  double Normal() { return std::normal_distribution<double>()(random_); }

  Quat UnitQuat() {
    Quat q{Normal(), Normal(), Normal(), Normal()};
    const double norm = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (double& v : q) v /= norm;
    return q;
  }

  So4 Block() {
    const double a = Normal(), b = Normal();
    switch (options_.family) {
      case Family::kLeft:
        return Canonical({UnitQuat(), {1, 0, 0, 0}});
      case Family::kPlanar:
        return Canonical({{std::cos(a), std::sin(a), 0, 0}, {std::cos(b), std::sin(b), 0, 0}});
      default:
        return Canonical({UnitQuat(), UnitQuat()});
    }
  }

  std::vector<Stage> Stages(const std::vector<int>& strides, int d) {
    std::vector<Stage> stages;
    for (const int stride : strides) {
      stages.push_back({stride, {}});
      for (int i = 0; i < d / 4; ++i) stages.back().blocks.push_back(Block());
    }
    return stages;
  }

  HeadTransform Transform(int d, int head) {
    HeadTransform t;
    t.head_dim = d;
    t.hadamard = options_.family != Family::kButterfly && options_.family != Family::kDense;
    if (options_.family == Family::kButterfly || options_.family == Family::kDense)
      t.stages = Stages(ButterflyStrides(d), d);
    else if (options_.family != Family::kNone)
      t.stages = Stages({1}, d);
    if (options_.family == Family::kDense) {
      t.dense = DenseMatrix(t);
      t.stages.clear();
    } else if (options_.signs && head > 0) {
      for (int c = 0; c < d; ++c) t.signs.push_back(Normal() < 0 ? -1 : 1);
    }
    if (options_.offset)
      for (int c = 0; c < d; ++c) t.offset.push_back(static_cast<float>(3 * Normal()));
    return t;
  }

  // Symmetric and positive definite.
  std::vector<float> Metric(int d) {
    std::vector<double> a;
    for (int i = 0; i < d * d; ++i) a.push_back(Normal());
    std::vector<float> m;
    for (int i = 0; i < d; ++i)
      for (int j = 0; j < d; ++j) {
        double sum = i == j ? 1 : 0;
        for (int k = 0; k < d; ++k)
          sum += a[static_cast<std::size_t>(i * d + k)] * a[static_cast<std::size_t>(j * d + k)];
        m.push_back(static_cast<float>(sum));
      }
    return m;
  }

  HeadTable Head(int d, int head) {
    HeadTable table;
    table.transform = Transform(d, head);
    if (options_.family == Family::kDense)
      table.chosen = Chosen::kDense;
    else if (options_.family == Family::kNone)
      table.chosen = Chosen::kHadamard;
    else
      table.chosen = head % 3 == 1 ? Chosen::kIdentity : Chosen::kFitted;
    table.rounding = options_.rounding;
    if (options_.rounding != Rounding::kNearest) {
      table.metric = Metric(d);
      table.damping = 0.1F;
    }
    if (options_.rounding == Rounding::kRefined) table.rounds = 2;
    return table;
  }

  HeadOutcome Outcome(int head) {
    HeadOutcome outcome;
    outcome.loss = head % 2 == 0 ? LossKind::kExpected : LossKind::kExact;
    outcome.shrink = 0.7F;
    outcome.iterations = 100 + head;
    outcome.converged = head % 2 == 0;
    for (const HeadErrors::Field& field : HeadErrors::Fields())
      outcome.errors.*field.value = std::abs(Normal());
    outcome.errors.test_chosen = 1e-300;
    return outcome;
  }

  SideTable MakeSide(int d) {
    SideTable side;
    side.codec = {d, options_.bits, options_.block, options_.grid, options_.scale};
    side.family = options_.family;
    side.shared = options_.shared;
    for (int h = 0; h < options_.num_heads; ++h) {
      side.heads.push_back(options_.shared && h > 0 ? side.heads.front() : Head(d, h));
      side.outcomes.push_back(Outcome(h));
    }
    return side;
  }

  LayerTable MakeLayer(int layer) {
    LayerTable table;
    table.layer = layer;
    table.side(Side::kKey) = MakeSide(options_.head_dim);
    table.side(Side::kValue) = MakeSide(options_.value_dim);
    table.hashes = {{{"k", "00ff"}, {"v", "11ee"}, {"q", "22dd"}}, {{"k", "33cc"}, {"v", "44bb"}}};
    table.counts = {{"heads left at hadamard", 2}, {"tokens dropped", static_cast<std::uint64_t>(layer)}};
    return table;
  }

  SampleOptions options_;
  std::mt19937_64 random_;
};

// A valid table; the same options give the same table.
inline RotationTable SampleTable(const SampleOptions& options = {}) { return SampleMaker(options).Make(); }

}  // namespace so4cal::testing
