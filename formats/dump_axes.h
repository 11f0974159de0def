// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

namespace so4cal {

// What the extents of a dataset count, slowest first. FORMATS.md, "Axes".
enum class Axis { kLayer, kBatch, kToken, kHead, kChannel };
using Axes = std::vector<Axis>;

// "head,token,channel" to axes. token, head and channel must be there, channel last and layer, if any,
// first; no name twice. Throws Error that starts with `where`.
Axes ParseAxes(const std::string& text, const std::string& where);
std::string AxesText(const Axes& axes);

// Extents by meaning. Row order of the tokens: batch items one after the other.
struct RowShape {
  hsize_t batches = 1, tokens_per_batch = 0, heads = 0, channels = 0;
  hsize_t tokens() const { return batches * tokens_per_batch; }
};
RowShape ShapeOf(const Axes& axes, const std::vector<hsize_t>& extents);

// Checks the stated axes against the extents; `stacked`: the dataset holds all layers, so the axes start
// with layer.
Axes CheckAxes(const std::string& stated, const std::string& source, const std::vector<hsize_t>& extents,
               bool stacked, const std::string& where);

// Axes of a dataset that nothing says them of: a reading fits when it has at least
// DumpOptions::kMinTokens tokens. One that fits is taken; none or two are an Error that lists them.
Axes DeduceAxes(const std::vector<hsize_t>& extents, bool stacked, const std::string& where);

}  // namespace so4cal
