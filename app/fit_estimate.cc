// SPDX-License-Identifier: Apache-2.0
#include "app/fit_estimate.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "app/interrupt.h"

namespace so4cal {
namespace {

constexpr std::uint64_t kProgramBytes = 25'000'000;  // so4cal with its libraries
constexpr std::uint64_t kWorkingCopies = 4;          // of a head's tokens, in losses and judges
constexpr std::uint64_t kWorkingMatrices = 8;        // double, head_dim squared
constexpr std::size_t kSidesInFlight = 3;            // of FitModel

const DatasetInfo& DataOf(const LayerInfo& layer, Side side) {
  return side == Side::kKey ? layer.k : layer.v;
}

std::uint64_t U(int number) { return static_cast<std::uint64_t>(number); }

int NumThreads(const FitJob& job) {
  return job.fit.threads != 0 ? job.fit.threads
                              : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The side twice, as read and as the heads hold it, with what of the attention the fit looks at.
std::uint64_t SideBytes(const LayerInfo& layer, Side side) {
  const DatasetInfo& data = DataOf(layer, side);
  std::uint64_t bytes = 2 * 4 * data.num_rows * U(data.num_heads) * U(data.channels);
  if (side == Side::kKey && layer.q)
    bytes += 4 * layer.q->num_rows * U(layer.q->num_heads) * U(layer.q->channels);
  if (side == Side::kValue && layer.has_w_o) {
    const std::uint64_t width = U(layer.q ? layer.q->num_heads : data.num_heads) * U(data.channels);
    bytes += 4 * width * width;
  }
  return bytes + 2 * 8 * U(data.num_heads) * U(data.channels) * U(data.channels);
}

std::uint64_t WorkBytes(const DatasetInfo& data) {
  return kWorkingCopies * 4 * data.num_rows * U(data.channels) +
         kWorkingMatrices * 8 * U(data.channels) * U(data.channels);
}

// Doubles of at most four stages, and a float metric.
std::uint64_t TableBytes(const DatasetInfo& data) {
  return U(data.num_heads) * (4 * 16 * U(data.channels) + 4 * U(data.channels) * U(data.channels));
}

double Weight(const DatasetInfo& data, std::size_t heads) {
  return static_cast<double>(heads) * static_cast<double>(data.channels);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// All heads of a side that shares one rotation; else one for each thread.
std::size_t HeadsToFit(const FitJob& job, const DatasetInfo& data, Side side) {
  const auto all = static_cast<std::size_t>(data.num_heads);
  if (job.fit.sides[static_cast<std::size_t>(side)].share == Share::kLayer) return all;
  return std::min(all, static_cast<std::size_t>(NumThreads(job)));
}

}  // namespace

std::size_t NumHeads(const KvDump& dump, const FitJob& job) {
  std::size_t heads = 0;
  for (const int layer : job.layers)
    heads += static_cast<std::size_t>(dump.layer(layer).k.num_heads + dump.layer(layer).v.num_heads);
  return heads;
}

std::uint64_t EstimateMemory(const KvDump& dump, const FitJob& job) {
  std::vector<std::uint64_t> sides;
  std::uint64_t table = 0, work = 0;
  for (const int id : job.layers)
    for (const Side side : kSides) {
      const DatasetInfo& data = DataOf(dump.layer(id), side);
      sides.push_back(SideBytes(dump.layer(id), side));
      table += TableBytes(data);
      work = std::max(work, WorkBytes(data));
    }
  std::uint64_t in_flight = 0;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const auto end = sides.begin() + static_cast<std::ptrdiff_t>(std::min(sides.size(), i + kSidesInFlight));
    in_flight = std::max(
        in_flight, std::accumulate(sides.begin() + static_cast<std::ptrdiff_t>(i), end, std::uint64_t{0}));
  }
  return kProgramBytes + in_flight + U(NumThreads(job)) * work + table;
}

std::optional<TimeEstimate> EstimateTime(const KvDump& dump, const FitJob& job) {
  const int layer = job.layers[job.layers.size() / 2];
  TimeEstimate estimate{.layer = layer, .threads = NumThreads(job)};
  double reading = 0, measured_weight = 0, weight = 0;
  for (const int id : job.layers)
    for (const Side side : kSides) {
      const DatasetInfo& data = DataOf(dump.layer(id), side);
      weight += Weight(data, static_cast<std::size_t>(data.num_heads));
    }
  FitCallbacks fit;
  fit.read = [&](int id, Side side) {
    const auto start = std::chrono::steady_clock::now();
    SideInput input = ReadSide(dump, job, id, side);
    const std::size_t heads = HeadsToFit(job, DataOf(dump.layer(id), side), side);
    for (int h = static_cast<int>(heads); h < input.activations.num_heads; ++h)
      input.constant_heads.push_back(h);  // these are not fitted
    estimate.heads += heads;
    measured_weight += Weight(DataOf(dump.layer(id), side), heads);
    reading += SecondsSince(start);
    return input;
  };
  fit.write = [](LayerTable&&) {};
  fit.progress = [](const FitProgress&) { return !Interrupted(); };
  const auto start = std::chrono::steady_clock::now();
  const std::array layers{layer};
  if (!FitModel(layers, NumHeads(dump, job), SplitOfJob(dump, job), job.fit, fit)) return {};
  estimate.measured_seconds = SecondsSince(start);
  // Reading goes on beside the fits, on one of the threads.
  const double reading_all = reading * static_cast<double>(job.layers.size());
  const double fitting = std::max(0.0, estimate.measured_seconds - reading) * weight / measured_weight;
  estimate.seconds = std::max(reading_all, reading_all / estimate.threads + fitting);
  return estimate;
}

std::string BytesText(std::uint64_t bytes) {
  constexpr std::uint64_t kMega = 1'000'000, kGiga = 1'000'000'000;
  const auto value = static_cast<double>(bytes);
  return bytes < kGiga ? fmt::format("{:.0f} MB", value / static_cast<double>(kMega))
                       : fmt::format("{:.1f} GB", value / static_cast<double>(kGiga));
}

}  // namespace so4cal
