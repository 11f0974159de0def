// SPDX-License-Identifier: Apache-2.0
#include "app/shard.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr int kMaxNumber = 1'000'000;

std::optional<int> ParseNumber(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > kMaxNumber)
    return {};
  return number;
}

int ArrayVariable(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) text = otherwise;
  if (text == nullptr)
    throw UsageError("--shard auto: expected the variables of a Slurm array job, found no " +
                     std::string(name) + "; start it with sbatch --array, or give --shard k/n");
  if (const auto number = ParseNumber(text)) return *number;
  throw UsageError("--shard auto: " + std::string(name) + " is '" + text + "', expected a whole number");
}

// Tasks MIN, MIN + STEP, ..., MAX are shards 1, 2, ..., n. Of an array with gaps, or of a task that was
// submitted again alone, the place among the shards is not known.
Shard ShardOfArrayTask() {
  const int id = ArrayVariable("SLURM_ARRAY_TASK_ID", nullptr);
  const int count = ArrayVariable("SLURM_ARRAY_TASK_COUNT", nullptr);
  const int first = ArrayVariable("SLURM_ARRAY_TASK_MIN", "1");
  const int step = ArrayVariable("SLURM_ARRAY_TASK_STEP", "1");
  const std::string last_otherwise = std::to_string(first + (count - 1) * step);
  const int last = ArrayVariable("SLURM_ARRAY_TASK_MAX", last_otherwise.c_str());
  const bool regular =
      step > 0 && last == first + (count - 1) * step && id >= first && id <= last && (id - first) % step == 0;
  if (!regular)
    throw UsageError("--shard auto: task " + std::to_string(id) + " of " + std::to_string(count) +
                     " tasks from " + std::to_string(first) + " to " + std::to_string(last) +
                     ", expected an array without gaps such as --array=1-4; give --shard k/n");
  return {(id - first) / step + 1, count};
}

}  // namespace

Shard ParseShard(std::string_view text) {
  if (text == "auto") return ShardOfArrayTask();
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto index = ParseNumber(text.substr(0, slash)), count = ParseNumber(text.substr(slash + 1));
    if (index && count && *index >= 1 && *index <= *count) return {*index, *count};
  }
  throw UsageError("--shard is '" + std::string(text) +
                   "', expected k/n with 1 <= k <= n such as 2/4, or auto");
}

std::vector<int> ShardLayers(std::span<const int> layers, const Shard& shard) {
  const auto n = static_cast<std::size_t>(shard.count), k = static_cast<std::size_t>(shard.index);
  if (n > layers.size())
    throw UsageError("--shard " + std::to_string(k) + "/" + std::to_string(n) + ": there are " +
                     std::to_string(layers.size()) + " layers, expected at most one shard for each");
  const std::size_t begin = (k - 1) * layers.size() / n, end = k * layers.size() / n;
  return {layers.begin() + static_cast<std::ptrdiff_t>(begin),
          layers.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace so4cal
