// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "formats/dump_layout.h"
#include "formats/hdf5_read.h"

namespace so4cal {
namespace {

constexpr hsize_t kMaxHeadsOrChannels = 1 << 20;  // far above any model: more is a wrong reading of the axes
constexpr double kMaxInteger = 9007199254740992.0;  // 2^53: attributes are read as doubles

// Describes the parts of one file, with its name for the messages.
class Describer {
 public:
  Describer(hid_t file, std::string name, const DumpOptions& options)
      : file_(file), name_(std::move(name)), options_(options) {}

  StoredLayer Layer(const LayerPaths& paths) const {
    StoredLayer layer;
    layer.layer = paths.layer;
    layer.k = Rows(paths.key, paths, nullptr);
    layer.v = Rows(paths.value, paths, &layer.k.axes);
    CheckKeysAndValues(layer);
    layer.softmax_scale = 1 / std::sqrt(static_cast<double>(layer.k.shape.channels));
    if (paths.group.empty()) return layer;
    Attributes(paths, layer);
    Queries(paths, layer);
    if (const auto path = Optional(paths, "q_moment")) layer.q_moment = Moment(*path, paths, layer);
    if (const auto path = Optional(paths, "w_o")) layer.w_o = OutputProjection(*path, paths, layer);
    return layer;
  }

  // Number attribute of the object at `path`, if it is there: the layer's own where it has one per layer.
  std::optional<double> Number(const std::string& path, const char* name,
                               std::optional<hsize_t> index) const {
    const QuietHdf5Errors quiet;
    const std::string where = name_ + ": " + path;
    const Hid object(H5Check(H5Oopen(file_, path.c_str(), H5P_DEFAULT), where), H5Oclose);
    const auto values = ReadNumberAttribute(object.get(), name, where);
    if (!values) return std::nullopt;
    if (values->size() == 1) return values->front();
    if (index && *index < values->size()) return (*values)[*index];
    throw Error(where + ": attribute `" + name + "`: expected one number, found " +
                std::to_string(values->size()));
  }

  std::optional<std::string> Text(const std::string& path, const char* name) const {
    const QuietHdf5Errors quiet;
    const std::string where = name_ + ": " + path;
    const Hid object(H5Check(H5Oopen(file_, path.c_str(), H5P_DEFAULT), where), H5Oclose);
    return ReadTextAttribute(object.get(), name, where);
  }

  std::optional<std::vector<std::int64_t>> Integers(const std::string& path) const {
    if (KindOf(file_, path) != ObjectKind::kDataset) return std::nullopt;
    return ReadIntegers(file_, path, name_ + ": " + path);
  }

 private:
  [[noreturn]] void Refuse(const StoredArray& array, const std::string& expected) const {
    throw Error(array.where + ": expected " + expected + ", found extents " + ExtentsText(array.extents));
  }

  std::optional<std::string> Optional(const LayerPaths& paths, const char* name) const {
    const std::string path = (paths.group == "/" ? "" : paths.group) + "/" + name;
    if (KindOf(file_, path) != ObjectKind::kDataset) return std::nullopt;
    return path;
  }

  // The `axes` attribute of the dataset, or of the nearest group around it.
  std::optional<std::pair<std::string, std::string>> StatedAxes(const std::string& path) const {
    if (!options_.axes.empty()) return std::pair(options_.axes, std::string("--axes"));
    for (std::string at = path;; at = at.substr(0, at.rfind('/'))) {
      const std::string object = at.empty() ? "/" : at;
      if (const auto text = Text(object, "axes")) return std::pair(*text, "attribute `axes` of " + object);
      if (at.empty()) return std::nullopt;
    }
  }

  // `fallback`: axes of the same layer's keys, for a dataset that nothing says them of.
  StoredRows Rows(const std::string& path, const LayerPaths& paths, const Axes* fallback) const {
    StoredRows rows;
    rows.array = DescribeArray(file_, name_, path, paths.index);
    const std::string& where = rows.array.where;
    std::vector<hsize_t> extents = rows.array.extents;
    if (paths.index) extents.insert(extents.begin(), 1);
    if (const auto stated = StatedAxes(path)) {
      rows.axes = CheckAxes(stated->first, stated->second, extents, paths.index.has_value(), where);
    } else if (fallback != nullptr && fallback->size() == rows.array.extents.size()) {
      rows.axes = *fallback;
    } else {
      rows.axes = DeduceAxes(extents, paths.index.has_value(), where);
    }
    if (rows.axes.front() == Axis::kLayer) rows.axes.erase(rows.axes.begin());
    rows.shape = ShapeOf(rows.axes, rows.array.extents);
    if (rows.shape.tokens() == 0)
      throw Error(where + ": expected tokens, found none (" + AxesText(rows.axes) + " = " +
                  ExtentsText(rows.array.extents) + ")");
    if (std::max(rows.shape.heads, rows.shape.channels) > kMaxHeadsOrChannels)
      Refuse(rows.array, "fewer heads and channels (" + AxesText(rows.axes) + ")");
    if (rows.shape.heads == 0) Refuse(rows.array, "at least one head (" + AxesText(rows.axes) + ")");
    return rows;
  }

  void CheckKeysAndValues(const StoredLayer& layer) const {
    for (const StoredRows* rows : {&layer.k, &layer.v}) {
      const hsize_t channels = rows->shape.channels;
      if (channels == 0 || channels % 8 != 0)
        throw Error(rows->array.where + ": expected a head_dim that is a multiple of 8, found " +
                    std::to_string(channels) + " channels");
    }
    const auto same = [&](const char* what, hsize_t k, hsize_t v) {
      if (k == v) return;
      throw Error(layer.v.array.where + ": expected as many " + what + " as in " + layer.k.array.path + " (" +
                  std::to_string(k) + "), found " + std::to_string(v) +
                  "; write both from the same run, and check `axes`");
    };
    same("tokens", layer.k.shape.tokens(), layer.v.shape.tokens());
    same("heads", layer.k.shape.heads, layer.v.shape.heads);
    same("batch items", layer.k.shape.batches, layer.v.shape.batches);
  }

  void Attributes(const LayerPaths& paths, StoredLayer& layer) const {
    const std::string where = name_ + ": " + paths.group + ": attribute ";
    if (const auto scale = Number(paths.group, "softmax_scale", paths.index)) {
      if (!(*scale > 0 && *scale < std::numeric_limits<double>::infinity()))
        throw Error(where + "`softmax_scale`: expected a positive number, found " + std::to_string(*scale));
      layer.softmax_scale = *scale;
    }
    if (const auto window = Number(paths.group, "sliding_window", paths.index)) {
      if (!(*window >= 0 && *window <= kMaxInteger) || *window != std::floor(*window))
        throw Error(where + "`sliding_window`: expected a number of tokens, or 0 for none, found " +
                    std::to_string(*window));
      if (*window > 0) layer.sliding_window = static_cast<std::int64_t>(*window);
    }
    if (const auto sink = Number(paths.group, "softmax_sink", paths.index)) {
      if (*sink != 0 && *sink != 1)
        throw Error(where + "`softmax_sink`: expected 0 or 1, found " + std::to_string(*sink));
      layer.softmax_sink = *sink == 1;
    }
    if (const auto cap = Number(paths.group, "logit_softcap", paths.index)) {
      if (!(*cap > 0 && std::isfinite(*cap)))
        throw Error(where + "`logit_softcap`: expected a positive number, found " + std::to_string(*cap));
      layer.logit_softcap = *cap;
    }
  }

  void Queries(const LayerPaths& paths, StoredLayer& layer) const {
    const auto path = Optional(paths, "q"), positions_path = Optional(paths, "q_positions");
    if (!path && positions_path)
      throw Error(name_ + ": " + *positions_path + ": expected the dataset q beside it, found none");
    if (!path) return;
    layer.q = Rows(*path, paths, &layer.k.axes);
    const RowShape &q = layer.q->shape, &k = layer.k.shape;
    if (q.channels != k.channels) Refuse(layer.q->array, std::to_string(k.channels) + " channels, as in k");
    if (q.heads % k.heads != 0)
      Refuse(layer.q->array, "a multiple of k's " + std::to_string(k.heads) + " heads");
    if (!positions_path) {
      if (q.tokens() != k.tokens() || q.batches != k.batches)
        Refuse(layer.q->array,
               "query rows for all " + std::to_string(k.tokens()) + " tokens, or q_positions beside it");
      return;
    }
    layer.q_positions = Integers(*positions_path);
    const std::string where = name_ + ": " + *positions_path;
    if (layer.q_positions->size() != q.tokens())
      throw Error(where + ": expected one position for each of the " + std::to_string(q.tokens()) +
                  " query rows, found " + std::to_string(layer.q_positions->size()));
    for (const std::int64_t at : *layer.q_positions)
      if (at < 0 || static_cast<hsize_t>(at) >= k.tokens())
        throw Error(where + ": expected token indices below " + std::to_string(k.tokens()) + ", found " +
                    std::to_string(at));
  }

  StoredArray Moment(const std::string& path, const LayerPaths& paths, const StoredLayer& layer) const {
    StoredArray array = DescribeArray(file_, name_, path, paths.index);
    const std::vector<hsize_t> expected = {layer.k.shape.heads, layer.k.shape.channels,
                                           layer.k.shape.channels};
    if (array.extents != expected) Refuse(array, "[KV heads, head_dim, head_dim] = " + ExtentsText(expected));
    return array;
  }

  StoredArray OutputProjection(const std::string& path, const LayerPaths& paths,
                               const StoredLayer& layer) const {
    StoredArray array = DescribeArray(file_, name_, path, paths.index);
    const hsize_t heads = layer.q ? layer.q->shape.heads : layer.k.shape.heads;
    const hsize_t columns = heads * layer.v.shape.channels;
    const bool fits = array.extents.size() == 2 && array.extents[0] > 0 && array.extents[1] > 0 &&
                      (layer.q ? array.extents[1] == columns : array.extents[1] % columns == 0);
    if (!fits)
      Refuse(array, "[outputs, query heads x value channels] with " +
                        std::string(layer.q ? "" : "a multiple of ") + std::to_string(columns) + " columns");
    return array;
  }

  hid_t file_;
  std::string name_;
  const DumpOptions& options_;
};

void CheckFormatAndRope(const Describer& describe, const std::string& name) {
  if (const auto format = describe.Text("/", "format"); format && format->starts_with("so4cal-"))
    throw Error(name + ": expected a dump of keys and values, found a file of format " + *format);
  const auto rope = describe.Text("/", "rope");
  if (!rope)
    throw Error(name +
                ": the root has no attribute `rope`; expected rope = \"post\". If its keys are those that "
                "the cache holds, after RoPE "
                "(or the model has none), set it: h5py.File(name, \"a\").attrs[\"rope\"] = \"post\"");
  if (*rope == "pre")
    throw Error(name +
                ": rope = \"pre\": expected keys after RoPE (rope = \"post\"), as the cache holds them; the "
                "rotation must act after RoPE, which mixes "
                "channel pairs by position. Dump the keys again after it");
  if (*rope != "post") throw Error(name + ": attribute `rope`: expected \"post\", found \"" + *rope + "\"");
}

int NumLayers(const Describer& describe, const std::string& name, const std::vector<LayerPaths>& layers) {
  const auto number = describe.Number("/", "num_layers", {});
  if (!number) return 0;
  if (!(*number >= 1 && *number <= 100000) || *number != std::floor(*number))
    throw Error(name + ": attribute `num_layers`: expected the model's number of layers, found " +
                std::to_string(*number));
  const int num_layers = static_cast<int>(*number);
  const std::string found = "attribute `num_layers` is " + std::to_string(num_layers);
  if (layers.back().layer >= num_layers)
    throw Error(name + ": " + found + ", but there is a layer " + std::to_string(layers.back().layer) +
                "; layers count from 0");
  if (layers.front().index && layers.size() != static_cast<std::size_t>(num_layers))
    throw Error(name + ": " + found + ", but the layer axis has " + std::to_string(layers.size()) +
                " entries, so that the layers' numbers are not known; write them as /layers/<i>");
  return num_layers;
}

// Tokens at which a sequence starts: those of the file and of its batch items.
std::vector<std::uint64_t> SequenceStarts(const Describer& describe, const std::string& name,
                                          const RowShape& shape) {
  std::set<std::uint64_t> starts;
  for (hsize_t i = 0; i < shape.batches; ++i) starts.insert(i * shape.tokens_per_batch);
  const auto stored = describe.Integers("/sequence_starts");
  if (!stored) return {starts.begin(), starts.end()};
  const std::string where = name +
                            ": /sequence_starts: expected token indices from 0 on, ascending and below " +
                            std::to_string(shape.tokens()) + ", found ";
  if (stored->empty()) throw Error(where + "none");
  if (stored->front() != 0) throw Error(where + std::to_string(stored->front()) + " as the first");
  for (std::size_t i = 1; i < stored->size(); ++i)
    if ((*stored)[i] <= (*stored)[i - 1])
      throw Error(where + std::to_string((*stored)[i]) + " after " + std::to_string((*stored)[i - 1]));
  if (static_cast<std::uint64_t>(stored->back()) >= shape.tokens())
    throw Error(where + std::to_string(stored->back()));
  starts.insert(stored->begin(), stored->end());
  return {starts.begin(), starts.end()};
}

}  // namespace

StoredFile OpenDumpFile(const std::filesystem::path& path, const DumpOptions& options) {
  const std::string name = path.string();
  StoredFile stored;
  stored.file = OpenHdf5ReadOnly(path);
  const Describer describe(stored.file.get(), name, options);
  CheckFormatAndRope(describe, name);
  const std::vector<LayerPaths> layers = FindLayers(stored.file.get(), name, options);
  stored.model = describe.Text("/", "model").value_or("");
  stored.num_layers = NumLayers(describe, name, layers);
  for (const LayerPaths& paths : layers) stored.layers.push_back(describe.Layer(paths));

  const RowShape& first = stored.layers.front().k.shape;
  for (const StoredLayer& layer : stored.layers) {
    if (layer.k.shape.tokens() == first.tokens() && layer.k.shape.batches == first.batches) continue;
    throw Error(layer.k.array.where + ": expected as many tokens and batch items as in " +
                stored.layers.front().k.array.path + " (" + std::to_string(first.tokens()) + " in " +
                std::to_string(first.batches) + "), found " + std::to_string(layer.k.shape.tokens()) +
                " in " + std::to_string(layer.k.shape.batches));
  }
  stored.info = {path.filename().string(), path, std::filesystem::file_size(path), first.tokens(),
                 SequenceStarts(describe, name, first)};
  return stored;
}

}  // namespace so4cal
