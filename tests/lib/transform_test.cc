// SPDX-License-Identifier: Apache-2.0
#include "lib/transform.h"

#include <gmock/gmock.h>

#include <limits>

#include "lib/error.h"
#include "tests/reference/transform_matrix.h"
#include "tests/support/random_data.h"

namespace so4cal {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

constexpr double kTight = 1e-13;  // products of up to ten matrices of entries up to 1, in double

class TransformOfHeadDim : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Dims, TransformOfHeadDim, testing::ValuesIn(kHeadDims));

TEST_P(TransformOfHeadDim, DenseMatrixFollowsTheDefinition) {
  const HeadTransform t = RandomTransform(GetParam(), 10);
  t.Check();
  EXPECT_THAT(DenseMatrix(t), Pointwise(DoubleNear(kTight), reference::TransformMatrix(t)));
}

TEST_P(TransformOfHeadDim, ForwardIsTheMatrixTimesXMinusOffset) {
  const HeadTransform t = RandomTransform(GetParam(), 20);
  const auto n = static_cast<std::size_t>(t.head_dim);
  const std::vector<double> x = Widened(Noise(n, 21)), u = reference::TransformMatrix(t);
  std::vector<double> z(n), want(n, 0.0), back(n);
  ForwardExact(t, x, z);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) want[i] += u[i * n + j] * (x[j] - t.offset[j]);
  EXPECT_THAT(z, Pointwise(DoubleNear(10 * kTight), want));
  InverseExact(t, z, back);
  EXPECT_THAT(back, Pointwise(DoubleNear(10 * kTight), x));
}

TEST_P(TransformOfHeadDim, HadamardStagesAreTheHadamardMatrix) {
  HeadTransform t;
  t.head_dim = GetParam();
  t.stages = HadamardStages(t.head_dim);
  t.Check();
  EXPECT_THAT(DenseMatrix(t),
              Pointwise(DoubleNear(1e-15), reference::Hadamard(static_cast<std::size_t>(t.head_dim))));
}

TEST_P(TransformOfHeadDim, IdentityStagesDoNothing) {
  HeadTransform t;
  t.head_dim = GetParam();
  t.stages = IdentityStages(t.head_dim, ButterflyStrides(t.head_dim));
  t.Check();
  EXPECT_EQ(DenseMatrix(t), reference::Identity(static_cast<std::size_t>(t.head_dim)));
}

TEST_P(TransformOfHeadDim, ADenseTransformActsAsItsMatrix) {
  const HeadTransform factors = RandomTransform(GetParam(), 30);
  HeadTransform dense;
  dense.head_dim = factors.head_dim;
  dense.dense = DenseMatrix(factors);
  dense.offset = factors.offset;
  dense.Check();
  const auto n = static_cast<std::size_t>(GetParam());
  const std::vector<double> x = Widened(Noise(n, 31));
  std::vector<double> a(n), b(n);
  ForwardExact(factors, x, a);
  ForwardExact(dense, x, b);
  EXPECT_THAT(b, Pointwise(DoubleNear(10 * kTight), a));
  InverseExact(dense, a, b);
  EXPECT_THAT(b, Pointwise(DoubleNear(10 * kTight), x));
}

TEST(Transform, ButterflyStridesByHand) {
  EXPECT_THAT(ButterflyStrides(8), ElementsAre(1, 2));
  EXPECT_THAT(ButterflyStrides(16), ElementsAre(1, 4));
  EXPECT_THAT(ButterflyStrides(32), ElementsAre(1, 4, 8));
  EXPECT_THAT(ButterflyStrides(64), ElementsAre(1, 4, 16));
  EXPECT_THAT(ButterflyStrides(80), ElementsAre(1, 4));  // sections of 16
  EXPECT_THAT(ButterflyStrides(128), ElementsAre(1, 4, 16, 32));
  EXPECT_THAT(ButterflyStrides(256), ElementsAre(1, 4, 16, 64));
}

// By hand: stride 2 at head_dim 16 has blocks {0,2,4,6}, {1,3,5,7}, {8,10,12,14}, {9,11,13,15}.
TEST(Transform, FirstChannelByHand) {
  EXPECT_EQ(FirstChannel(0, 2), 0);
  EXPECT_EQ(FirstChannel(1, 2), 1);
  EXPECT_EQ(FirstChannel(2, 2), 8);
  EXPECT_EQ(FirstChannel(3, 2), 9);
}

TEST(Transform, CheckNamesWhatIsWrong) {
  const auto refused = [](auto change, const char* reason) {
    HeadTransform t = RandomTransform(16, 40);
    change(t);
    EXPECT_THAT([&] { t.Check(); }, ThrowsMessage<Error>(HasSubstr(reason)));
  };
  refused([](auto& t) { t.head_dim = 6; }, "head_dim is 6");
  refused([](auto& t) { t.head_dim = 2048; }, "head_dim is 2048");
  refused([](auto& t) { t.signs.pop_back(); }, "signs has 15");
  refused([](auto& t) { t.signs[3] = 0; }, "sign of channel 3");
  refused([](auto& t) { t.offset.push_back(0); }, "offset has 17");
  refused([](auto& t) { t.offset[5] = std::numeric_limits<float>::infinity(); }, "offset of channel 5");
  refused([](auto& t) { t.stages[1].stride = 3; }, "stage 1: stride is 3");
  refused([](auto& t) { t.stages[1].stride = 0; }, "stage 1: stride is 0");
  refused([](auto& t) { t.stages[1].stride = 1 << 30; }, "stage 1: stride");
  refused([](auto& t) { t.stages[0].blocks.pop_back(); }, "has 3 blocks");
  refused([](auto& t) { t.stages[0].blocks[2].left[0] += 1e-4; }, "stage 0, block 2");
  refused([](auto& t) { t.stages[0].blocks[2].right[1] = std::numeric_limits<double>::quiet_NaN(); }, "norm");
  refused([](auto& t) { t.dense = reference::Identity(16); }, "can't be combined");
  const auto dense_refused = [](auto change, const char* reason) {
    HeadTransform t;
    t.head_dim = 16;
    t.dense = reference::Identity(16);
    change(t);
    EXPECT_THAT([&] { t.Check(); }, ThrowsMessage<Error>(HasSubstr(reason)));
  };
  dense_refused([](auto& t) { t.dense.pop_back(); }, "255 values");
  dense_refused([](auto& t) { t.dense[17] = 1.001; }, "rows 1 and 1");
  dense_refused([](auto& t) { t.dense[16] = 0.001; }, "rows 0 and 1");
}

}  // namespace
}  // namespace so4cal
