// SPDX-License-Identifier: Apache-2.0
#include "calib/fit_model.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "calib/calibrate_rotation.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::size_t kMaxSidesInFlight = 3;

// One side of one layer on its way through the pipeline.
struct SideWork {
  int layer = 0;
  Side side = Side::kKey;
  SideOptions options;
  SideInput input;
  SideTable table;
  std::uint64_t restarted = 0;  // heads whose chosen fit began at a random start
};

// Counts finished heads; one caller at a time reaches the callback.
class ProgressCounter {
 public:
  ProgressCounter(std::size_t total, const FitCallbacks& callbacks)
      : callbacks_(callbacks), progress_{0, total} {}
  void HeadDone() {
    const std::lock_guard lock(mutex_);
    ++progress_.heads_done;
    if (callbacks_.progress && !callbacks_.progress(progress_)) stopped_ = true;
  }
  bool stopped() const { return stopped_; }
  void Stop() { stopped_ = true; }

 private:
  const FitCallbacks& callbacks_;
  std::mutex mutex_;
  FitProgress progress_;
  std::atomic<bool> stopped_ = false;
};

RotationCalibration::Result ConstantHead(const SideOptions& side, int head_dim) {
  RotationCalibration::Result r;
  r.table.transform = StartTransform(side, head_dim);
  r.table.chosen = Chosen::kIdentity;
  r.outcome.shrink = 0;
  return r;
}

// A head that was not fitted keeps the stages of the others, and identity as what is chosen.
void ShareMap(const RotationCalibration::Result& from, RotationCalibration::Result& to) {
  to.table.transform = from.table.transform;
  to.table.transform.offset.clear();
}

// The heads that have a rotation together.
struct HeadGroup {
  std::vector<std::size_t> heads;
  std::optional<RotationCalibration> calibration;
};

std::vector<HeadGroup> GroupHeads(const SideWork& work, Share share) {
  std::vector<HeadGroup> groups;
  for (std::size_t h = 0; h < static_cast<std::size_t>(work.input.activations.num_heads); ++h) {
    if (std::ranges::count(work.input.constant_heads, static_cast<int>(h)) != 0) continue;
    if (groups.empty() || share == Share::kHead) groups.emplace_back();
    groups.back().heads.push_back(h);
  }
  return groups;
}

// All heads of one side: parts of all heads in parallel, then the choices.
void FitSide(SideWork& work, const TokenSplit& split, const FitOptions& options, ProgressCounter& progress) {
  const SideOptions& side = work.options;
  const Activations& x = work.input.activations;
  std::vector<HeadGroup> groups = GroupHeads(work, side.share);
  std::vector<std::pair<std::size_t, int>> parts;  // (group, part)
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::vector<HeadInput> inputs;
    for (const std::size_t h : groups[g].heads)
      inputs.push_back({work.side, x.head(static_cast<int>(h)), static_cast<int>(h), x.num_heads,
                        work.input.attention.get()});
    groups[g].calibration.emplace(inputs, split, side, options.max_iterations, options.seed);
    for (int p = 0; p < groups[g].calibration->num_parts(); ++p) parts.emplace_back(g, p);
  }
  tbb::parallel_for(std::size_t{0}, parts.size(), [&](std::size_t i) {
    if (!progress.stopped()) groups[parts[i].first].calibration->FitPart(parts[i].second);
  });
  if (progress.stopped()) return;
  const auto num_heads = static_cast<std::size_t>(x.num_heads);
  std::vector<RotationCalibration::Result> results(num_heads, ConstantHead(side, x.channels));
  tbb::parallel_for(std::size_t{0}, groups.size(), [&](std::size_t g) {
    std::vector<RotationCalibration::Result> of_group = groups[g].calibration->Finish();
    for (std::size_t i = 0; i < of_group.size(); ++i) {
      results[groups[g].heads[i]] = std::move(of_group[i]);
      progress.HeadDone();
    }
  });
  for (const int h : work.input.constant_heads) {
    if (side.share == Share::kLayer && !groups.empty())
      ShareMap(results[groups[0].heads[0]], results[static_cast<std::size_t>(h)]);
    progress.HeadDone();
  }
  work.table = {
      .codec = side.Codec(x.channels), .family = side.rotation, .shared = side.share == Share::kLayer};
  for (RotationCalibration::Result& r : results) {
    work.table.heads.push_back(std::move(r.table));
    work.table.outcomes.push_back(r.outcome);
    work.restarted += r.restarted ? 1 : 0;
  }
  work.input = {};
}

// What the summary of a fit counts, per layer.
void CountOutcomes(LayerTable& layer, Side s) {
  const SideTable& side = layer.side(s);
  for (std::size_t h = 0; h < side.heads.size(); ++h) {
    const std::string prefix = std::string(SideName(s)) + "_";
    layer.counts[prefix + std::string(NameOf(ChosenNames(), side.heads[h].chosen))] += 1;
    layer.counts[prefix + "rounding_" + std::string(NameOf(Roundings(), side.heads[h].rounding))] += 1;
    layer.counts[prefix + "objective_" + std::string(NameOf(Objectives(), side.outcomes[h].objective))] += 1;
    if (!side.heads[h].transform.signs.empty()) layer.counts[prefix + "signs"] += 1;
    if (side.outcomes[h].converged == 0) layer.counts[prefix + "not_converged"] += 1;
    if (side.heads[h].chosen == Chosen::kFitted && side.outcomes[h].shrink < 1)
      layer.counts[prefix + "shrunk"] += 1;
    if (side.heads[h].chosen == Chosen::kFitted)
      layer.counts[prefix + "loss_" + std::string(NameOf(LossKinds(), side.outcomes[h].loss))] += 1;
  }
}

}  // namespace

bool FitModel(std::span<const int> layers, std::size_t heads_total, const TokenSplit& split,
              const FitOptions& options, const FitCallbacks& callbacks) {
  options.Check();
  ProgressCounter progress(heads_total, callbacks);
  const int threads = options.threads != 0 ? options.threads : tbb::this_task_arena::max_concurrency();
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<std::size_t>(threads));
  std::size_t next = 0;
  LayerTable layer;

  // An exception that left a filter would make the pipeline leak the items in flight: it waits until they are
  // done.
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto guarded = [&](const auto& step) {
    try {
      step();
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      progress.Stop();
    }
  };

  const auto read = [&](tbb::flow_control& control) -> std::shared_ptr<SideWork> {
    if (next == 2 * layers.size() || progress.stopped()) {
      control.stop();
      return nullptr;
    }
    auto work = std::make_shared<SideWork>();
    work->layer = layers[next / 2];
    work->side = kSides[next % 2];
    ++next;
    guarded([&] { work->options = options.ForLayer(work->layer, work->side); });
    guarded([&] { work->input = callbacks.read(work->layer, work->side); });
    return work;
  };
  const auto fit = [&](const std::shared_ptr<SideWork>& work) {
    if (!progress.stopped()) guarded([&] { FitSide(*work, split, options, progress); });
    return work;
  };
  const auto write = [&](const std::shared_ptr<SideWork>& work) {
    if (progress.stopped()) return;
    if (work->side == Side::kKey) layer = LayerTable{.layer = work->layer};
    layer.side(work->side) = std::move(work->table);
    CountOutcomes(layer, work->side);
    if (work->restarted != 0)
      layer.counts[std::string(SideName(work->side)) + "_restarted"] = work->restarted;
    if (work->side == Side::kValue) guarded([&] { callbacks.write(std::move(layer)); });
  };
  using Work = std::shared_ptr<SideWork>;
  tbb::parallel_pipeline(kMaxSidesInFlight,
                         tbb::make_filter<void, Work>(tbb::filter_mode::serial_in_order, read) &
                             tbb::make_filter<Work, Work>(tbb::filter_mode::parallel, fit) &
                             tbb::make_filter<Work, void>(tbb::filter_mode::serial_in_order, write));
  if (error) std::rethrow_exception(error);
  return !progress.stopped();
}

}  // namespace so4cal
