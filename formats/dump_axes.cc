// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_axes.h"

#include <algorithm>

#include "formats/hdf5_read.h"
#include "formats/kv_dump.h"

namespace so4cal {
namespace {

constexpr const char* kAxisNames[] = {"layer", "batch", "token", "head", "channel"};
constexpr const char* kHowToSay =
    "give the dataset, its group or the root of the file the attribute `axes`, or pass --axes";
constexpr const char* kExpected =
    "expected a comma list of token, head and channel (last), batch if there is one, and layer first where "
    "one dataset holds all layers";

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> names(1);
  for (const char c : text) {
    if (c == ',')
      names.emplace_back();
    else if (c != ' ')
      names.back() += c;
  }
  return names;
}

bool Contains(const Axes& axes, Axis axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

std::string ReadingText(const Axes& axes, const std::vector<hsize_t>& extents) {
  const RowShape shape = ShapeOf(axes, extents);
  return AxesText(axes) + " (" + std::to_string(shape.tokens()) + " tokens, " + std::to_string(shape.heads) +
         " heads)";
}

}  // namespace

Axes ParseAxes(const std::string& text, const std::string& where) {
  Axes axes;
  for (const std::string& name : SplitList(text)) {
    const auto* found = std::find(std::begin(kAxisNames), std::end(kAxisNames), name);
    const auto axis = static_cast<Axis>(found - std::begin(kAxisNames));
    if (found == std::end(kAxisNames) || Contains(axes, axis))
      throw Error(where + ": " + kExpected + ", found \"" + text + "\"");
    axes.push_back(axis);
  }
  const bool complete =
      Contains(axes, Axis::kToken) && Contains(axes, Axis::kHead) && axes.back() == Axis::kChannel;
  const bool layer_first = !Contains(axes, Axis::kLayer) || axes.front() == Axis::kLayer;
  if (!complete || !layer_first) throw Error(where + ": " + kExpected + ", found \"" + text + "\"");
  return axes;
}

std::string AxesText(const Axes& axes) {
  std::string text;
  for (const Axis axis : axes)
    text += (text.empty() ? "" : ",") + std::string(kAxisNames[static_cast<int>(axis)]);
  return text;
}

RowShape ShapeOf(const Axes& axes, const std::vector<hsize_t>& extents) {
  RowShape shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    switch (axes[i]) {
      case Axis::kLayer:
        break;
      case Axis::kBatch:
        shape.batches = extents[i];
        break;
      case Axis::kToken:
        shape.tokens_per_batch = extents[i];
        break;
      case Axis::kHead:
        shape.heads = extents[i];
        break;
      case Axis::kChannel:
        shape.channels = extents[i];
        break;
    }
  }
  return shape;
}

Axes CheckAxes(const std::string& stated, const std::string& source, const std::vector<hsize_t>& extents,
               bool stacked, const std::string& where) {
  const Axes axes = ParseAxes(stated, where + ": " + source);
  if (axes.size() != extents.size())
    throw Error(where + ": " + source + " names " + std::to_string(axes.size()) + " axes (" + stated +
                "), but the dataset has extents " + ExtentsText(extents) + "; correct the axes");
  if (Contains(axes, Axis::kLayer) != stacked)
    throw Error(where + ": " + source + " (" + stated + ") " +
                (stacked ? "must start with layer, since the dataset is at the root and holds all layers"
                         : "must not name layer, since the dataset holds one layer") +
                "; correct the axes");
  return axes;
}

Axes DeduceAxes(const std::vector<hsize_t>& extents, bool stacked, const std::string& where) {
  const std::size_t rank = extents.size() - (stacked && !extents.empty() ? 1 : 0);
  if (rank != 3 && rank != 4)
    throw Error(where + ": extents " + ExtentsText(extents) +
                " can't be told to be tokens, heads and channels; " + kExpected + ": " + kHowToSay);
  Axes outer;
  if (stacked) outer.push_back(Axis::kLayer);
  if (rank == 4) outer.push_back(Axis::kBatch);
  Axes token_first = outer, head_first = outer;
  token_first.insert(token_first.end(), {Axis::kToken, Axis::kHead, Axis::kChannel});
  head_first.insert(head_first.end(), {Axis::kHead, Axis::kToken, Axis::kChannel});
  const auto fits = [&](const Axes& axes) {
    return ShapeOf(axes, extents).tokens() >= DumpOptions::kMinTokens;
  };
  if (fits(token_first) && !fits(head_first)) return token_first;
  if (fits(head_first) && !fits(token_first)) return head_first;
  throw Error(where + ": its axes can't be told from its extents " + ExtentsText(extents) + ": " +
              ReadingText(token_first, extents) + " or " + ReadingText(head_first, extents) + "; " +
              kHowToSay);
}

}  // namespace so4cal
