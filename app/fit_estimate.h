// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "app/fit_job.h"

namespace so4cal {

// KV heads of the job's layers, keys and values.
std::size_t NumHeads(const KvDump& dump, const FitJob& job);

// Peak memory of the fit, from the shapes alone: three sides of layers in flight, the working copies of the
// heads that are being fitted, and the table.
std::uint64_t EstimateMemory(const KvDump& dump, const FitJob& job);

struct TimeEstimate {
  double seconds = 0;  // of the whole fit
  int layer = 0;       // whose heads were fitted to know,
  std::size_t heads = 0;
  double measured_seconds = 0;  // in this time
  int threads = 0;
};
// Fits some heads of the middle layer, as many of both sides as there are threads, and scales by heads times
// channels. Nothing when interrupted. Throws Error.
std::optional<TimeEstimate> EstimateTime(const KvDump& dump, const FitJob& job);

// "1.3 GB"
std::string BytesText(std::uint64_t bytes);

}  // namespace so4cal
