// SPDX-License-Identifier: Apache-2.0
#include "calib/split.h"

#include <algorithm>
#include <string>

#include "lib/error.h"

namespace so4cal {
namespace {

// Most runs that --fit-tokens spreads over the fit part, and the fewest tokens in one of them.
constexpr std::uint64_t kMaxRuns = 16;
constexpr std::uint64_t kMinRunTokens = 32;

// Tokens of one file without the first `skip` of every sequence.
std::vector<TokenRange> KeptTokens(const FileTokens& file, std::uint64_t skip) {
  std::vector<TokenRange> kept;
  for (std::size_t i = 0; i < file.sequence_starts.size(); ++i) {
    const std::uint64_t end =
        i + 1 < file.sequence_starts.size() ? file.sequence_starts[i + 1] : file.num_tokens;
    const std::uint64_t begin = file.sequence_starts[i];
    if (skip < end - begin) kept.push_back({begin + skip, end});
  }
  return kept;
}

// Positions [begin, end) counted in kept tokens, as token ranges.
std::vector<TokenRange> Slice(std::span<const TokenRange> kept, std::uint64_t begin, std::uint64_t end) {
  std::vector<TokenRange> out;
  std::uint64_t position = 0;
  for (const TokenRange& r : kept) {
    const std::uint64_t length = r.end - r.begin;
    const std::uint64_t from = std::max(begin, position), to = std::min(end, position + length);
    if (from < to) out.push_back({r.begin + (from - position), r.begin + (to - position)});
    position += length;
  }
  return out;
}

// At most `limit` of the first `available` kept tokens, in evenly spaced runs.
std::vector<TokenRange> FitRuns(std::span<const TokenRange> kept, std::uint64_t available,
                                std::uint64_t limit) {
  if (limit == 0 || limit >= available) return Slice(kept, 0, available);
  const std::uint64_t runs = std::clamp<std::uint64_t>(limit / kMinRunTokens, 1, kMaxRuns);
  std::vector<TokenRange> out;
  for (std::uint64_t i = 0; i < runs; ++i) {
    const std::uint64_t length = limit / runs + (i < limit % runs ? 1 : 0);
    const std::uint64_t begin = i * available / runs;
    const auto run = Slice(kept, begin, std::min(begin + length, available));
    out.insert(out.end(), run.begin(), run.end());
  }
  return out;
}

void CheckPart(const char* name, int percent, std::span<const TokenRange> ranges, std::uint64_t kept) {
  if (percent > 0 && ranges.empty())
    throw Error("--split asks for " + std::to_string(percent) + " % of the tokens for " + name + ", but " +
                std::to_string(kept) +
                " tokens are too few for that: dump more tokens or set that part to 0");
}

}  // namespace

void SplitOptions::Check() const {
  const bool in_range = fit_percent >= 1 && validation_percent >= 0 && test_percent >= 0 &&
                        fit_percent <= 100 && validation_percent <= 100 && test_percent <= 100;
  if (!in_range || fit_percent + validation_percent + test_percent != 100)
    throw UsageError("--split is " + std::to_string(fit_percent) + "," + std::to_string(validation_percent) +
                     "," + std::to_string(test_percent) +
                     ", expected three percentages that sum to 100, the first at least 1");
}

std::vector<TokenSplit> SplitTokens(std::span<const FileTokens> files, const SplitOptions& options) {
  std::vector<TokenSplit> splits;
  std::vector<std::vector<TokenRange>> kept_per_file;
  std::uint64_t total_fit = 0;
  for (const FileTokens& file : files) {
    kept_per_file.push_back(KeptTokens(file, options.skip_tokens));
    const std::uint64_t n = NumTokens(kept_per_file.back());
    total_fit += n * static_cast<std::uint64_t>(options.fit_percent) / 100;
  }
  for (const std::vector<TokenRange>& kept : kept_per_file) {
    const std::uint64_t n = NumTokens(kept);
    const std::uint64_t fit_end = n * static_cast<std::uint64_t>(options.fit_percent) / 100;
    const std::uint64_t validation_end =
        n * static_cast<std::uint64_t>(options.fit_percent + options.validation_percent) / 100;
    // Each file gives its share of --fit-tokens, of which there can't be more than total_fit.
    const std::uint64_t limit =
        options.fit_tokens == 0
            ? 0
            : std::max<std::uint64_t>(1, std::min(options.fit_tokens, total_fit) * fit_end /
                                             std::max<std::uint64_t>(1, total_fit));
    TokenSplit split{FitRuns(kept, fit_end, limit), Slice(kept, fit_end, validation_end),
                     Slice(kept, validation_end, n)};
    CheckPart("fit", options.fit_percent, split.fit, n);
    CheckPart("validation", options.validation_percent, split.validation, n);
    CheckPart("test", options.test_percent, split.test, n);
    splits.push_back(std::move(split));
  }
  return splits;
}

std::uint64_t NumTokens(std::span<const TokenRange> ranges) {
  std::uint64_t n = 0;
  for (const TokenRange& r : ranges) n += r.end - r.begin;
  return n;
}

std::vector<TokenRange> GlobalRanges(std::span<const std::vector<TokenRange>> per_file,
                                     std::span<const std::uint64_t> tokens_per_file) {
  std::vector<TokenRange> out;
  std::uint64_t first = 0;
  for (std::size_t f = 0; f < per_file.size(); ++f) {
    for (const TokenRange& r : per_file[f]) out.push_back({r.begin + first, r.end + first});
    first += tokens_per_file[f];
  }
  return out;
}

std::vector<float> GatherRows(const HeadView& head, std::span<const TokenRange> ranges) {
  std::vector<float> rows;
  rows.reserve(NumTokens(ranges) * static_cast<std::size_t>(head.channels));
  for (const TokenRange& r : ranges)
    for (std::uint64_t t = r.begin; t < r.end; ++t) {
      const auto row = head.row(t);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  return rows;
}

}  // namespace so4cal
