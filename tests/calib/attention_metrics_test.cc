// SPDX-License-Identifier: Apache-2.0
#include "calib/attention_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/random_data.h"

namespace so4cal {
namespace {

HeadView Rows(const std::vector<float>& values, int channels) {
  const auto c = static_cast<std::size_t>(channels);
  return {values.data(), values.size() / c, c, channels};
}

// One channel, three tokens, one query head, softmax_scale .5, queries of tokens 1 and 2 (q = 2, so that
// the scaled logits are the keys 0, ln 2 and ln 3), stored keys 0, 0, ln 3: worked by hand below.
class ByHand : public ::testing::Test {
 protected:
  const float ln2_ = std::log(2.0f), ln3_ = std::log(3.0f);
  std::vector<float> k_{0, ln2_, ln3_}, stored_k_{0, 0, ln3_}, v_{1, 2, 4}, stored_v_{1, 2, 5}, q_{2, 2};
  std::vector<std::uint64_t> positions_{1, 2}, starts_{0};
  std::vector<TokenRange> tokens_{{0, 3}};
  std::vector<double> gram_{9};  // W = 3
  AttentionHead head_{.keys = Rows(k_, 1),
                      .values = Rows(v_, 1),
                      .queries = {Rows(q_, 1)},
                      .positions = positions_,
                      .sequence_starts = starts_,
                      .softmax_scale = 0.5,
                      .sliding_window = {},
                      .skip_tokens = 0,
                      .tokens = tokens_,
                      .output_gram = gram_};

  AttentionErrors Measure() const {
    return MeasureAttention(head_, std::vector<StoredHead>{{stored_k_, stored_v_}})[0][0];
  }
};

TEST_F(ByHand, AllFigures) {
  const AttentionErrors e = Measure();
  const double l2 = std::log(2.0), l3 = std::log(3.0);
  EXPECT_EQ(e.num_rows, 2u);
  // Unscaled change of the logits: row 1: 0, -2 ln 2; row 2: 0, -2 ln 2, 0. Squares about the mean:
  // (2 ln 2)^2 times 1/2 and 2/3.
  EXPECT_NEAR(e.logit_error, 4 * l2 * l2 * (0.5 + 2.0 / 3), 1e-6);
  const double mean = (l2 + l3) / 3;
  const double row2 = mean * mean + (l2 - mean) * (l2 - mean) + (l3 - mean) * (l3 - mean);
  EXPECT_NEAR(e.logit_energy, 4 * (l2 * l2 / 2 + row2), 1e-6);
  // Row 1: p = 1/3 2/3, stored 1/2 1/2. Row 2: p = 1/6 2/6 3/6, stored 1/5 1/5 3/5.
  const double kl1 = std::log(2.0 / 3) / 3 + 2 * std::log(4.0 / 3) / 3;
  const double kl2 = std::log(5.0 / 6) / 6 + std::log(5.0 / 3) / 3 + std::log(5.0 / 6) / 2;
  EXPECT_NEAR(e.kl, kl1 + kl2, 1e-6);
  EXPECT_NEAR(e.attention_kl(), (kl1 + kl2) / 2, 1e-6);
  EXPECT_EQ(e.attention_top1(), 0.5);  // row 1: from key 1 to key 0 (the first of equals)
  // Outputs 5/3 and 17/6; keys stored: 3/2 and 3; values stored: 5/3 and 20/6; both: 3/2 and 18/5.
  EXPECT_NEAR(e.head.energy, 25.0 / 9 + 289.0 / 36, 1e-5);
  EXPECT_NEAR(e.head.keys, 2.0 / 36, 1e-6);
  EXPECT_NEAR(e.head.values, 0.25, 1e-6);
  EXPECT_NEAR(e.head.both, 1.0 / 36 + std::pow(3.6 - 17.0 / 6, 2), 1e-6);
  EXPECT_NEAR(e.output.both, 9 * e.head.both, 1e-9);
  EXPECT_NEAR(e.output.energy, 9 * e.head.energy, 1e-9);
}

TEST_F(ByHand, RunsAddUpToTheWhole) {
  const auto runs = MeasureAttention(head_, std::vector<StoredHead>{{stored_k_, stored_v_}}, 2)[0];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].num_rows, 1u);
  EXPECT_NEAR(runs[0].head.keys, 1.0 / 36, 1e-6);
  AttentionErrors sum = runs[0];
  sum.Merge(runs[1]);
  EXPECT_EQ(sum.kl, Measure().kl);
  EXPECT_EQ(sum.output.both, Measure().output.both);
}

TEST_F(ByHand, SinksStayExact) {
  head_.skip_tokens = 2;  // only token 1's key is changed
  const AttentionErrors e = Measure();
  EXPECT_EQ(e.logit_error, 0);
  EXPECT_EQ(e.attention_top1(), 1);
  EXPECT_GT(e.head.values, 0);  // token 2's value is still stored
}

TEST_F(ByHand, WindowOfOneSeesOnlyItself) {
  head_.sliding_window = 1;
  const AttentionErrors e = Measure();
  EXPECT_EQ(e.kl, 0);
  EXPECT_EQ(e.logit_error, 0);
  EXPECT_NEAR(e.head.energy, 4 + 16, 1e-6);
  EXPECT_NEAR(e.head.both, 1, 1e-6);
}

TEST_F(ByHand, NothingStoredNoError) {
  const AttentionErrors e = MeasureAttention(head_, std::vector<StoredHead>{{}})[0][0];
  EXPECT_EQ(e.kl + e.logit_error + e.head.both + e.output.both, 0);
  EXPECT_EQ(e.attention_top1(), 1);
  EXPECT_NEAR(e.logit_energy, Measure().logit_energy, 0);
}

TEST_F(ByHand, WithoutValuesNoOutput) {
  head_.values = {};
  const AttentionErrors e = MeasureAttention(head_, std::vector<StoredHead>{{stored_k_, {}}})[0][0];
  EXPECT_GT(e.kl, 0);
  EXPECT_EQ(e.head.energy, 0);
}

// A random head with two sequences, a window, sinks, and queries of every third token.
struct RandomHead {
  static constexpr std::size_t kTokens = 150, kGroup = 2;
  static constexpr int kChannels = 8, kValueChannels = 6, kModel = 5;
  std::vector<float> k = Noise(kTokens * kChannels, 1), v = Noise(kTokens * kValueChannels, 2);
  std::vector<float> stored_k = Noisy(k, 3), stored_v = Noisy(v, 4);
  std::vector<float> w_o = Noise(kModel * kGroup * kValueChannels, 5);
  std::vector<std::vector<float>> q;
  std::vector<std::uint64_t> positions, starts{0, 61};
  std::vector<TokenRange> tokens{{20, 50}, {70, 150}};
  std::vector<double> gram = OutputGram(w_o, kGroup* kValueChannels, 0, kGroup* kValueChannels);
  AttentionHead head;

  explicit RandomHead(std::optional<std::int64_t> window) {
    for (std::uint64_t t = 1; t < kTokens; t += 3) positions.push_back(t);
    head = {.keys = Rows(k, kChannels),
            .values = Rows(v, kValueChannels),
            .queries = {},
            .positions = positions,
            .sequence_starts = starts,
            .softmax_scale = 0.4,
            .sliding_window = window,
            .skip_tokens = 3,
            .tokens = tokens,
            .output_gram = gram};
    for (unsigned j = 0; j < kGroup; ++j) q.push_back(Noise(positions.size() * kChannels, 6 + j));
    for (const auto& rows : q) head.queries.push_back(Rows(rows, kChannels));
  }
  static std::vector<float> Noisy(std::vector<float> x, unsigned seed) {
    const std::vector<float> noise = Noise(x.size(), seed);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += 0.3f * noise[i];
    return x;
  }
  AttentionErrors Measure() const {
    return MeasureAttention(head, std::vector<StoredHead>{{stored_k, stored_v}})[0][0];
  }
};

// The definition, in plain loops.
class PlainLoops {
 public:
  explicit PlainLoops(const RandomHead& r) : r_(r) {}

  AttentionErrors Measure() {
    for (std::size_t i = 0; i < r_.positions.size(); ++i) {
      const std::uint64_t t = r_.positions[i];
      if (!Counts(t)) continue;
      std::vector<double> exact, both, keys, values;
      for (std::size_t j = 0; j < RandomHead::kGroup; ++j) OneHead(i, j, exact, both, keys, values);
      sums_.output.energy += Projected(exact);
      sums_.output.both += Projected(both);
      sums_.output.keys += Projected(keys);
      sums_.output.values += Projected(values);
    }
    return sums_;
  }

 private:
  bool Counts(std::uint64_t t) const {
    for (const TokenRange& range : r_.tokens)
      if (t >= range.begin && t < range.end) return true;
    return false;
  }
  std::uint64_t Start(std::uint64_t t) const { return t >= r_.starts[1] ? r_.starts[1] : 0; }
  bool Sees(std::uint64_t t, std::uint64_t s) const {
    const bool in_window =
        !r_.head.sliding_window || s + static_cast<std::uint64_t>(*r_.head.sliding_window) > t;
    return s <= t && s >= Start(t) && in_window;
  }
  double Value(const std::vector<float>& exact, const std::vector<float>& stored, bool use_stored,
               std::uint64_t s, std::size_t channels, std::size_t c) const {
    const bool sink = s - Start(s) < r_.head.skip_tokens;
    return static_cast<double>((use_stored && !sink ? stored : exact)[s * channels + c]);
  }
  double Logit(std::size_t i, std::size_t j, std::uint64_t s, bool stored) const {
    double sum = 0;
    for (std::size_t c = 0; c < RandomHead::kChannels; ++c)
      sum += static_cast<double>(r_.q[j][i * RandomHead::kChannels + c]) *
             Value(r_.k, r_.stored_k, stored, s, RandomHead::kChannels, c);
    return sum;
  }
  std::vector<double> Output(const std::vector<double>& p, std::uint64_t first, bool stored) const {
    std::vector<double> out(RandomHead::kValueChannels, 0.0);
    for (std::size_t s = 0; s < p.size(); ++s)
      for (std::size_t c = 0; c < out.size(); ++c)
        out[c] += p[s] * Value(r_.v, r_.stored_v, stored, first + s, out.size(), c);
    return out;
  }
  static std::vector<double> Softmax(std::vector<double> x, double scale) {
    double sum = 0;
    for (double& v : x) sum += v = std::exp(scale * v);
    for (double& v : x) v /= sum;
    return x;
  }
  static double CentredEnergy(const std::vector<double>& x) {
    double mean = 0, energy = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) energy += (v - mean) * (v - mean);
    return energy;
  }
  static double Append(std::vector<double>& all, const std::vector<double>& a, const std::vector<double>& b) {
    double energy = 0;
    for (std::size_t c = 0; c < a.size(); ++c) {
      all.push_back(a[c] - b[c]);
      energy += all.back() * all.back();
    }
    return energy;
  }
  double Projected(const std::vector<double>& x) const {
    double energy = 0;
    for (std::size_t m = 0; m < RandomHead::kModel; ++m) {
      double sum = 0;
      for (std::size_t c = 0; c < x.size(); ++c) sum += static_cast<double>(r_.w_o[m * x.size() + c]) * x[c];
      energy += sum * sum;
    }
    return energy;
  }
  void OneHead(std::size_t i, std::size_t j, std::vector<double>& exact, std::vector<double>& both,
               std::vector<double>& keys, std::vector<double>& values) {
    const std::uint64_t t = r_.positions[i];
    std::uint64_t first = Start(t);
    while (!Sees(t, first)) ++first;
    std::vector<double> x, y, logits_in, delta_in;
    for (std::uint64_t s = first; s <= t; ++s) {
      x.push_back(Logit(i, j, s, false));
      y.push_back(Logit(i, j, s, true));
      if (!Counts(s)) continue;
      logits_in.push_back(x.back());
      delta_in.push_back(y.back() - x.back());
    }
    ++sums_.num_rows;
    sums_.logit_error += CentredEnergy(delta_in);
    sums_.logit_energy += CentredEnergy(logits_in);
    sums_.top1_same +=
        std::max_element(x.begin(), x.end()) - x.begin() == std::max_element(y.begin(), y.end()) - y.begin();
    const auto p = Softmax(x, r_.head.softmax_scale), p_stored = Softmax(y, r_.head.softmax_scale);
    for (std::size_t s = 0; s < p.size(); ++s) sums_.kl += p[s] * std::log(p[s] / p_stored[s]);
    const std::vector<double> out = Output(p, first, false), zero(out.size(), 0.0);
    sums_.head.energy += Append(exact, out, zero);
    sums_.head.both += Append(both, Output(p_stored, first, true), out);
    sums_.head.keys += Append(keys, Output(p_stored, first, false), out);
    sums_.head.values += Append(values, Output(p, first, true), out);
  }

  const RandomHead& r_;
  AttentionErrors sums_;
};

// f32 products of 8 channels and up to 90 keys: relative 1e-5 is a hundred times their rounding.
class AgainstPlainLoops : public ::testing::TestWithParam<int> {};
TEST_P(AgainstPlainLoops, AllFigures) {
  const RandomHead r(GetParam() > 0 ? std::optional<std::int64_t>(GetParam()) : std::nullopt);
  const AttentionErrors e = r.Measure(), want = PlainLoops(r).Measure();
  EXPECT_EQ(e.num_rows, want.num_rows);
  EXPECT_GT(e.num_rows, 60u);  // more than one tile
  EXPECT_EQ(e.top1_same, want.top1_same);
  const auto near = [](double a, double b) { EXPECT_NEAR(a / b, 1, 1e-5); };
  near(e.logit_error, want.logit_error);
  near(e.logit_energy, want.logit_energy);
  near(e.kl, want.kl);
  for (const auto part : {&AttentionErrors::Output::both, &AttentionErrors::Output::keys,
                          &AttentionErrors::Output::values, &AttentionErrors::Output::energy}) {
    near(e.head.*part, want.head.*part);
    near(e.output.*part, want.output.*part);
  }
}
INSTANTIATE_TEST_SUITE_P(Windows, AgainstPlainLoops, ::testing::Values(0, 17, 2));

// A vector added to every key moves all logits of a query alike: neither the logit error nor attention
// changes. Sinks are stored exactly, so that there must be none.
TEST(MeasureAttention, AConstantKeyErrorIsFree) {
  RandomHead r({});
  r.head.skip_tokens = 0;
  const AttentionErrors before = r.Measure();
  for (std::size_t i = 0; i < r.stored_k.size(); ++i)
    r.stored_k[i] += static_cast<float>(i % RandomHead::kChannels) - 3.5f;
  const AttentionErrors after = r.Measure();
  EXPECT_NEAR(after.logit_error / before.logit_error, 1, 1e-5);
  EXPECT_NEAR(after.kl / before.kl, 1, 1e-4);
  EXPECT_NEAR(after.head.both / before.head.both, 1, 1e-4);
}

}  // namespace
}  // namespace so4cal
