// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calib/fit_model.h"
#include "formats/kv_dump.h"
#include "lib/rotation_table.h"

namespace so4cal {

// What of a dump a fit uses, and how: everything that the result depends on.
struct FitJob {
  FitOptions fit;
  DumpOptions dump;
  std::vector<int> layers;  // ascending, all in the dump
};

struct FitJobCallbacks {
  std::function<bool(const FitProgress&)> progress;   // false stops the fit
  std::function<void(const LayerTable&)> layer_done;  // in order of layers
};

// What the job's table says of options, dumps and tool, before any layer is fitted.
RotationTable TableWithoutLayers(const KvDump& dump, const FitJob& job);

// Reads the job's layers of the dump, but for those that are `finished`, fits them and returns the table of
// all, complete and checked; nothing when `progress` stopped it. Throws Error.
std::optional<RotationTable> RunFitJob(const KvDump& dump, const FitJob& job,
                                       std::vector<LayerTable> finished, const FitJobCallbacks& callbacks);

// The tokens that the job fits, chooses and tests on, as indices over all files.
TokenSplit SplitOfJob(const KvDump& dump, const FitJob& job);

// One side of one layer with what its fit looks at. Throws Error.
SideInput ReadSide(const KvDump& dump, const FitJob& job, int layer, Side side);

std::vector<FileTokens> TokensOfFiles(const KvDump& dump);
std::vector<std::uint64_t> TokenCounts(const KvDump& dump);

// Start of every sequence, as token index over all files.
std::vector<std::uint64_t> GlobalSequenceStarts(const KvDump& dump);

// Tokens at the starts of sequences that --skip-tokens drops.
std::uint64_t NumSinkTokens(const KvDump& dump, std::uint64_t skip_tokens);

// The keys of LayerTable::counts that a fit job adds to those of FitModel.
inline constexpr char kCountSinkTokens[] = "sink_tokens_dropped";
inline constexpr char kCountConstantHeads[] = "constant_heads";
inline constexpr char kCountUnusedFitTokens[] = "fit_tokens_left_out";

}  // namespace so4cal
