// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "calib/fit_options.h"
#include "calib/layer_attention.h"
#include "lib/activations.h"
#include "lib/rotation_table.h"

namespace so4cal {

// One side of one layer, as the source hands it over.
struct SideInput {
  Activations activations;          // all tokens of all files
  std::vector<int> constant_heads;  // identity, counted; see --allow-constant-heads
  // What the dump says of this layer's attention; may be absent.
  std::shared_ptr<const LayerAttention> attention;
};

struct FitProgress {
  std::size_t heads_done = 0;  // over both sides
  std::size_t heads_total = 0;
};

// Where the data come from and where the results go: FitModel itself reads and writes nothing.
struct FitCallbacks {
  // Called from one thread at a time, in the order of `layers`, keys before values; while earlier
  // sides are being fitted.
  std::function<SideInput(int layer, Side side)> read;
  // Called once per layer, in order, when both sides are fitted. hashes and dropped-token counts are left
  // for the caller to fill in.
  std::function<void(LayerTable&& layer)> write;
  // May be empty. Called from one thread at a time; returning false stops the fit: FitModel then returns
  // false after the running heads, and `write` is not called for unfinished layers.
  std::function<bool(const FitProgress&)> progress;
};

// Fits every head of every listed layer. split: GlobalRanges of the fit, validation and test tokens.
// heads_total: over all layers and both sides, for the progress. The result does not depend on
// options.threads. Peak memory: max_sides_in_flight = 3 sides of one layer each and their fit tokens.
// Throws what `read` and `write` throw, and Error for options that do not fit the data.
bool FitModel(std::span<const int> layers, std::size_t heads_total, const TokenSplit& split,
              const FitOptions& options, const FitCallbacks& callbacks);

}  // namespace so4cal
