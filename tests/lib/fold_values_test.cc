// SPDX-License-Identifier: Apache-2.0
#include "lib/fold_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lib/engine_rotation.h"
#include "tests/reference/transform_matrix.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

// U = [[0, -1], [1, 0]] turns (x, y) to (-y, x); mu = (10, 20).
HeadTransform QuarterTurn() {
  HeadTransform map;
  map.head_dim = 2;
  map.dense = {0, -1, 1, 0};
  map.offset = {10, 20};
  return map;
}

TEST(FoldValues, ByHand) {
  const ValueFold fold = MakeValueFold(QuarterTurn(), EngineRotationMatrix({}, 2));
  std::vector<double> w_v{1, 2, 3, 4, 5, 6};  // U W: minus the second row, then the first
  FoldValueHead(fold, w_v);
  EXPECT_THAT(w_v, ElementsAre(-4, -5, -6, 1, 2, 3));
  std::vector<double> b_v{11, 22};  // U (1, 2)
  FoldValueBias(fold, b_v);
  EXPECT_THAT(b_v, ElementsAre(-2, 1));
  const std::vector<ValueFold> folds{fold};
  std::vector<double> w_o{1, 2, 3, 4};  // one row, two query heads: (a, b) U^T = (-b, a)
  EXPECT_THAT(OffsetThroughRows(folds, 2, w_o), ElementsAre(1 * 10 + 2 * 20 + 3 * 10 + 4 * 20));
  FoldOutputRows(folds, 2, w_o);
  EXPECT_THAT(w_o, ElementsAre(-2, 1, -4, 3));
}

// F = H_2 with the quarter turn: F^-1 U = 1/sqrt(2) [[1, -1], [-1, -1]].
TEST(FoldValues, EngineRotationByHand) {
  const std::vector<double> f = EngineRotationMatrix({EngineRotation::Kind::kHadamard}, 2);
  const ValueFold fold = MakeValueFold(QuarterTurn(), f);
  const double r = std::sqrt(0.5);
  EXPECT_THAT(fold.into_v, Pointwise(DoubleNear(1e-15), {r, -r, -r, -r}));
  EXPECT_THAT(fold.out_of_o, Pointwise(DoubleNear(1e-15), {r, -r, -r, -r}));  // symmetric here
}

// A layer of random weights with 2 KV heads of 8, 3 query heads each, 5 inputs, 7 outputs.
struct Layer {
  static constexpr std::size_t kHeads = 2, kQueryHeads = 6, kDim = 8, kIn = 5, kOut = 7;
  std::vector<double> w_v = Widened(Noise(kHeads * kDim * kIn, 1)), b_v = Widened(Noise(kHeads * kDim, 2));
  std::vector<double> w_o = Widened(Noise(kOut * kQueryHeads * kDim, 3)), b_o = Widened(Noise(kOut, 4));
};

// y = m x + b
std::vector<double> Affine(std::span<const double> m, std::span<const double> x, std::span<const double> b) {
  std::vector<double> y(b.begin(), b.end());
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += m[i * x.size() + j] * x[j];
  return y;
}

// Values per head, [kHeads * kDim], times f in each head.
std::vector<double> PerHead(std::span<const double> f, const std::vector<double>& v) {
  std::vector<double> out;
  const std::vector<double> zero(Layer::kDim, 0.0);
  for (std::size_t at = 0; at < v.size(); at += Layer::kDim) {
    const std::vector<double> z = Affine(f, std::span(v).subspan(at, Layer::kDim), zero);
    out.insert(out.end(), z.begin(), z.end());
  }
  return out;
}

// Softmax weights sum to one; two tokens do. Each query head j reads KV head j / 3.
std::vector<double> Attend(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (std::size_t j = 0; j < Layer::kQueryHeads; ++j)
    for (std::size_t c = 0; c < Layer::kDim; ++c) {
      const double share = 0.1 + 0.15 * static_cast<double>(j);
      const std::size_t at = j / 3 * Layer::kDim + c;
      out.push_back(share * a[at] + (1 - share) * b[at]);
    }
  return out;
}

class FoldedLayer : public ::testing::TestWithParam<EngineRotation> {
 protected:
  FoldedLayer() : f_(EngineRotationMatrix(GetParam(), Layer::kDim)) {
    for (unsigned h = 0; h < Layer::kHeads; ++h) {
      maps_.push_back(RandomTransform(Layer::kDim, 10 + h));
      maps_.back().offset = Noise(Layer::kDim, 20 + h);
      folds_.push_back(MakeValueFold(maps_.back(), f_));
    }
    const std::size_t per_head = Layer::kDim * Layer::kIn;
    for (std::size_t h = 0; h < Layer::kHeads; ++h) {
      FoldValueHead(folds_[h], std::span(folded_.w_v).subspan(h * per_head, per_head));
      FoldValueBias(folds_[h], std::span(folded_.b_v).subspan(h * Layer::kDim, Layer::kDim));
    }
    const std::vector<double> through = OffsetThroughRows(folds_, Layer::kQueryHeads, folded_.w_o);
    FoldOutputRows(folds_, Layer::kQueryHeads, folded_.w_o);
    for (std::size_t i = 0; i < through.size(); ++i) folded_.b_o[i] += through[i];
  }

  std::vector<double> Cached(const Layer& layer, std::span<const double> f, const std::vector<double>& x) {
    return PerHead(f, Affine(layer.w_v, x, layer.b_v));
  }

  std::vector<double> f_;
  std::vector<HeadTransform> maps_;
  std::vector<ValueFold> folds_;
  Layer layer_, folded_;
  const std::vector<double> x_ = Widened(Noise(Layer::kIn, 30)), y_ = Widened(Noise(Layer::kIn, 31));
};

// 1e-13: sums of some tens of numbers of order one in double.
TEST_P(FoldedLayer, TheCacheHoldsRotatedValues) {
  const std::vector<double> v = Affine(layer_.w_v, x_, layer_.b_v);
  std::vector<double> expected(v.size());
  for (std::size_t h = 0; h < Layer::kHeads; ++h)
    ForwardExact(maps_[h], std::span(v).subspan(h * Layer::kDim, Layer::kDim),
                 std::span(expected).subspan(h * Layer::kDim, Layer::kDim));
  EXPECT_THAT(Cached(folded_, f_, x_), Pointwise(DoubleNear(1e-13), expected));
}

TEST_P(FoldedLayer, TheOutputIsThatOfTheModel) {
  const std::vector<double> identity = reference::Identity(Layer::kDim);
  const std::vector<double> before =
      Affine(layer_.w_o, Attend(Cached(layer_, identity, x_), Cached(layer_, identity, y_)), layer_.b_o);
  std::vector<double> f_inverse(f_.size());
  for (std::size_t i = 0; i < Layer::kDim; ++i)
    for (std::size_t j = 0; j < Layer::kDim; ++j) f_inverse[j * Layer::kDim + i] = f_[i * Layer::kDim + j];
  const std::vector<double> attended = Attend(Cached(folded_, f_, x_), Cached(folded_, f_, y_));
  EXPECT_THAT(Affine(folded_.w_o, PerHead(f_inverse, attended), folded_.b_o),
              Pointwise(DoubleNear(1e-13), before));
}

using Kind = EngineRotation::Kind;
INSTANTIATE_TEST_SUITE_P(
    Engines, FoldedLayer,
    ::testing::Values(EngineRotation{}, EngineRotation{Kind::kHadamard}, EngineRotation{Kind::kHadamard, 4},
                      EngineRotation{Kind::kSigns, 0, {1, -1, -1, 1, 1, 1, -1, 1}},
                      EngineRotation{
                          Kind::kSigns, 0, {1, -1, -1, 1, 1, 1, -1, 1, -1, -1, 1, 1, -1, 1, 1, 1}}));

// A head without a rotation keeps its numbers, and rows may be cut anywhere.
TEST(FoldValues, IdentityAndPartsOfRows) {
  HeadTransform none;
  none.head_dim = 8;
  const std::vector<double> identity = EngineRotationMatrix({}, 8);
  HeadTransform some = RandomTransform(8, 5);
  some.offset.clear();
  const std::vector<ValueFold> folds{MakeValueFold(none, identity), MakeValueFold(some, identity)};
  const std::vector<double> rows = Widened(Noise(3 * 32, 6));
  std::vector<double> all = rows, parts = rows;
  FoldOutputRows(folds, 4, all);
  for (std::size_t row = 0; row < 3; ++row) FoldOutputRows(folds, 4, std::span(parts).subspan(32 * row, 32));
  EXPECT_EQ(all, parts);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i % 32 < 16) {
      EXPECT_EQ(all[i], rows[i]) << i;
    }
  EXPECT_THAT(OffsetThroughRows(folds, 4, rows), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace so4cal
