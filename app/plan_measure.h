// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "calib/bit_plan.h"
#include "calib/split.h"
#include "formats/kv_dump.h"
#include "lib/grids.h"

namespace so4cal {

// What a plan adds up over layers and sides. Relative to the layer, because a layer that writes little is
// heard all the same: every layer norm brings it back to scale. On validation tokens.
enum class PlanError {
  kOutputWo,       // squared error of the attention output after W_O over its energy
  kOutputHead,     // before W_O
  kReconstruction  // squared error of keys or of values over their energy around the mean
};
std::string_view PlanErrorName(PlanError error);  // output_wo, output_head, reconstruction
std::string_view PlanErrorText(PlanError error);  // for people

// The best of the three that every one of these layers allows.
PlanError CommonPlanError(const KvDump& dump, std::span<const int> layers);

struct PlanOptions {
  SplitOptions split;
  GridKind grid = GridKind::kLloyd;
  ScaleRule scale = ScaleRule::kMse;
};

// The items of a plan with no errors yet: what the cheapest plan costs is known before anything is measured.
std::vector<PlanItem> UnmeasuredPlanItems(const KvDump& dump, std::span<const int> layers);

// Two items per layer, keys first, with 2, 3 and 4 bits times every power of two from 32 to 128 that divides
// head_dim (the largest below where none does). Heads are stored as `fit` does by default but for the
// rotation, which is plain Hadamard: the mean of the fit tokens as offset, keys rounded by feedback where the
// output is measured, the rest to nearest. `layer_done` is called after each layer; false stops, and the
// result is incomplete. Throws Error without validation tokens or without queries at them.
std::vector<PlanItem> MeasurePlanItems(const KvDump& dump, std::span<const int> layers,
                                       const PlanOptions& options, PlanError error,
                                       const std::function<bool()>& layer_done);

}  // namespace so4cal
