// SPDX-License-Identifier: Apache-2.0
#include "calib/split.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>

#include "lib/error.h"

namespace so4cal {
namespace {

using testing::ElementsAre;

MATCHER_P2(Is, begin, end, "") {
  return arg.begin == static_cast<std::uint64_t>(begin) && arg.end == static_cast<std::uint64_t>(end);
}

TEST(Split, CutsByIntegerDivisionAfterSinks) {  // 1024 - 4 = 1020: 714, 867
  const FileTokens file{1024, {0}};
  const auto split = SplitTokens({&file, 1}, {});
  EXPECT_THAT(split[0].fit, ElementsAre(Is(4, 718)));
  EXPECT_THAT(split[0].validation, ElementsAre(Is(718, 871)));
  EXPECT_THAT(split[0].test, ElementsAre(Is(871, 1024)));
}

TEST(Split, DropsTheSinksOfEverySequence) {  // kept: 4..49 and 54..99, 92 tokens, cuts at 64 and 78
  const FileTokens file{100, {0, 50}};
  const auto split = SplitTokens({&file, 1}, {});
  EXPECT_THAT(split[0].fit, ElementsAre(Is(4, 50), Is(54, 72)));
  EXPECT_THAT(split[0].validation, ElementsAre(Is(72, 86)));
  EXPECT_THAT(split[0].test, ElementsAre(Is(86, 100)));
}

TEST(Split, SequencesShorterThanTheSinksVanish) {
  const FileTokens file{103, {0, 50, 53}};  // the middle one has 3 tokens
  const auto split = SplitTokens({&file, 1}, {});
  for (const auto* part : {&split[0].fit, &split[0].validation, &split[0].test})
    for (const TokenRange& r : *part) EXPECT_TRUE(r.end <= 50 || r.begin >= 57);
}

TEST(Split, FitTokensAreSpreadAndCounted) {
  const FileTokens file{10004, {0}};
  const auto split = SplitTokens({&file, 1}, {.fit_tokens = 1000});
  EXPECT_EQ(NumTokens(split[0].fit), 1000u);
  EXPECT_EQ(split[0].fit.size(), 16u);
  EXPECT_GT(split[0].fit.back().begin, 6000u);  // they reach to the end of the fit part, which is 7004
  EXPECT_LE(split[0].fit.back().end, 7004u);
  EXPECT_THAT(split[0].test, ElementsAre(Is(8504, 10004)));  // the other parts stay whole
}

TEST(Split, HugeLimitsAreNoLimits) {  // their products and sums would wrap
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const FileTokens files[] = {{1000, {0, 100}}, {500, {0}}};
  for (const std::uint64_t limit : {kHuge, kHuge / 3, std::uint64_t{1} << 63}) {
    const auto unlimited = SplitTokens(files, {});
    const auto limited = SplitTokens(files, {.fit_tokens = limit});
    for (std::size_t f = 0; f < 2; ++f) EXPECT_EQ(limited[f], unlimited[f]) << limit;
    EXPECT_THROW(SplitTokens(files, {.skip_tokens = limit}), Error);  // nothing is left
  }
}

TEST(Split, PartsNeverOverlap) {
  const FileTokens files[] = {{1000, {0, 100, 333}}, {77, {0}}};
  for (const std::uint64_t limit : {0, 10, 300}) {
    for (const TokenSplit& s : SplitTokens(files, {.fit_tokens = limit})) {
      std::vector<int> uses(1000, 0);
      for (const auto* part : {&s.fit, &s.validation, &s.test})
        for (const TokenRange& r : *part)
          for (auto t = r.begin; t < r.end; ++t) ++uses[t];
      EXPECT_EQ(std::ranges::count_if(uses, [](int n) { return n > 1; }), 0);
    }
  }
}

TEST(Split, ChecksPercentages) {
  EXPECT_NO_THROW((SplitOptions{70, 0, 30}.Check()));
  EXPECT_NO_THROW((SplitOptions{100, 0, 0}.Check()));
  EXPECT_THROW((SplitOptions{70, 15, 20}.Check()), UsageError);
  EXPECT_THROW((SplitOptions{0, 50, 50}.Check()), UsageError);
  EXPECT_THROW((SplitOptions{110, -5, -5}.Check()), UsageError);
}

TEST(Split, RefusesAnEmptyPart) {
  const FileTokens file{8, {0}};  // 4 kept: 2 fit, 1 validation, 1 test
  EXPECT_NO_THROW(SplitTokens({&file, 1}, {}));
  const FileTokens tiny{6, {0}};  // 2 kept: 1 fit, 0 validation
  EXPECT_THROW(SplitTokens({&tiny, 1}, {}), Error);
}

TEST(Split, GlobalRangesShiftByFile) {
  const std::vector<TokenRange> per_file[] = {{{4, 10}}, {{0, 3}, {5, 6}}};
  const std::uint64_t tokens[] = {10, 8};
  EXPECT_THAT(GlobalRanges(per_file, tokens), ElementsAre(Is(4, 10), Is(10, 13), Is(15, 16)));
}

TEST(Split, GatherRowsConcatenates) {
  std::vector<float> values(10 * 2);
  std::iota(values.begin(), values.end(), 0.0f);
  const TokenRange ranges[] = {{1, 2}, {8, 10}};
  EXPECT_THAT(GatherRows({values.data(), 10, 2, 2}, ranges), ElementsAre(2, 3, 16, 17, 18, 19));
}

}  // namespace
}  // namespace so4cal
