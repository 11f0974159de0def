// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lib/activations.h"

namespace so4cal {

// What a file of tokens says about all its layers.
struct DumpHeader {
  std::string model;
  int num_model_layers = 0;  // 0: unknown
  std::uint64_t num_tokens = 0;
  std::vector<std::uint64_t> sequence_starts;  // ascending, first is 0
  std::vector<int> layers;                     // ascending
  bool operator==(const DumpHeader&) const = default;
};

// Writes a dump as FORMATS.md has it, f32, axes head,token,channel, keys and values only, layer after layer:
// `read` is called in order, keys before values. Atomic; the same bytes for the same values. Throws Error.
void WriteKvDump(const std::filesystem::path& out, const DumpHeader& header,
                 const std::function<Activations(int layer, Side side)>& read);

}  // namespace so4cal
