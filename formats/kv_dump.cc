// SPDX-License-Identifier: Apache-2.0
#include "formats/kv_dump.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "formats/content_hash.h"
#include "formats/dump_file.h"
#include "formats/dump_values.h"

namespace so4cal {
namespace {

DatasetInfo InfoOf(const StoredRows& rows, std::uint64_t num_rows) {
  return {static_cast<int>(rows.shape.heads),
          static_cast<int>(rows.shape.channels),
          num_rows,
          rows.array.type.name,
          AxesText(rows.axes),
          rows.array.filters};
}

// One layer of two files must be the same layer of one model.
void CheckSameLayer(const StoredFile& first, const StoredFile& other, const StoredLayer& a,
                    const StoredLayer& b) {
  const std::string where = other.info.path.string() + ": layer " + std::to_string(b.layer) + ": ";
  const std::string than = " in " + first.info.path.string();
  const auto same = [&](const char* what, auto expected, auto found) {
    if (expected == found) return;
    throw Error(where + "expected " + what + " " + std::to_string(expected) + " as" + than + ", found " +
                std::to_string(found) + "; give files of one model");
  };
  same("heads of k", a.k.shape.heads, b.k.shape.heads);
  same("channels of k", a.k.shape.channels, b.k.shape.channels);
  same("heads of v", a.v.shape.heads, b.v.shape.heads);
  same("channels of v", a.v.shape.channels, b.v.shape.channels);
  same("heads of q", a.q ? a.q->shape.heads : 0, b.q ? b.q->shape.heads : 0);
  same("softmax_scale", a.softmax_scale, b.softmax_scale);
  same("sliding_window", a.sliding_window.value_or(0), b.sliding_window.value_or(0));
  same("softmax_sink", a.softmax_sink, b.softmax_sink);
  same("logit_softcap", a.logit_softcap.value_or(0), b.logit_softcap.value_or(0));
  same("number of q_moment datasets", a.q_moment.has_value(), b.q_moment.has_value());
  same("number of w_o datasets", a.w_o.has_value(), b.w_o.has_value());
}

void CheckSameModel(const StoredFile& first, const StoredFile& other) {
  const std::string where = other.info.path.string() + ": ", than = " as in " + first.info.path.string();
  if (!first.model.empty() && !other.model.empty() && first.model != other.model)
    throw Error(where + "expected model \"" + first.model + "\"" + than + ", found \"" + other.model +
                "\"; give files of one model");
  if (first.num_layers != 0 && other.num_layers != 0 && first.num_layers != other.num_layers)
    throw Error(where + "expected num_layers " + std::to_string(first.num_layers) + than + ", found " +
                std::to_string(other.num_layers) + "; give files of one model");
  const auto lacks = [](const StoredFile& file, const StoredFile& has) {
    for (const StoredLayer& layer : has.layers)
      if (!std::ranges::binary_search(file.layers, layer.layer, {}, &StoredLayer::layer))
        throw Error(file.info.path.string() + ": expected layer " + std::to_string(layer.layer) + ", which " +
                    has.info.path.string() +
                    " has, found none; all files of a dump must have the same layers");
  };
  lacks(other, first);
  lacks(first, other);
  for (std::size_t i = 0; i < first.layers.size(); ++i)
    CheckSameLayer(first, other, first.layers[i], other.layers[i]);
}

}  // namespace

void DumpOptions::Check() const {
  if (!axes.empty()) {
    try {
      ParseAxes(axes, "--axes");
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
  }
  if (key_name.empty()) throw UsageError("--key-name: expected the name of a dataset, found nothing");
  if (value_name.empty()) throw UsageError("--value-name: expected the name of a dataset, found nothing");
  if (key_name == value_name)
    throw UsageError("--key-name and --value-name: expected two datasets, found " + key_name + " twice");
  const auto has_layer = [](const std::string& name) { return name.find("{layer}") != std::string::npos; };
  if (has_layer(key_name) != has_layer(value_name))
    throw UsageError("--key-name and --value-name: expected {layer} in both or in none, found " + key_name +
                     " and " + value_name);
}

struct KvDump::Impl {
  std::vector<StoredFile> stored;
  std::vector<DumpFile> files;
  std::vector<LayerInfo> layers;
  std::uint64_t num_tokens = 0;
  DumpOptions options;
  // Known once read: content hashes per file, and heads that are constant.
  std::map<std::tuple<std::size_t, int, std::string>, std::string> hashes;
  std::map<std::pair<int, Side>, std::vector<int>> constant_heads;

  std::size_t Index(int layer) const {
    const auto at = std::ranges::lower_bound(layers, layer, {}, &LayerInfo::layer);
    if (at != layers.end() && at->layer == layer) return static_cast<std::size_t>(at - layers.begin());
    std::string found;
    for (const LayerInfo& info : layers) found += (found.empty() ? "" : ", ") + std::to_string(info.layer);
    throw Error(files.front().path.string() + ": expected layer " + std::to_string(layer) +
                ", found layers " + found);
  }

  LayerInfo Describe(std::size_t index) const {
    const StoredLayer& first = stored.front().layers[index];
    LayerInfo info;
    info.layer = first.layer;
    info.k = InfoOf(first.k, num_tokens);
    info.v = InfoOf(first.v, num_tokens);
    std::uint64_t num_queries = 0;
    for (const StoredFile& file : stored) {
      const StoredLayer& layer = file.layers[index];
      if (layer.q) num_queries += layer.q->shape.tokens();
      info.has_q_positions |= layer.q_positions.has_value();
    }
    if (first.q) info.q = InfoOf(*first.q, num_queries);
    info.has_q_moment = first.q_moment.has_value();
    info.has_w_o = first.w_o.has_value();
    info.softmax_scale = first.softmax_scale;
    info.sliding_window = first.sliding_window;
    info.softmax_sink = first.softmax_sink;
    info.logit_softcap = first.logit_softcap;
    return info;
  }

  // Rows of one dataset of a layer over all files, checked to be finite. `rows` picks the dataset.
  template <typename Rows>
  Activations ReadAll(int layer, const char* name, std::size_t num_rows, const Rows& rows) {
    const std::size_t index = Index(layer);
    const RowShape& shape = rows(stored.front().layers[index]).shape;
    Activations out;
    out.num_heads = static_cast<int>(shape.heads);
    out.num_tokens = num_rows;
    out.channels = static_cast<int>(shape.channels);
    const std::size_t size = shape.heads * num_rows * shape.channels;
    try {
      out.values.resize(size);
    } catch (const std::bad_alloc&) {
      throw Error(rows(stored.front().layers[index]).array.where + ": expected " +
                  std::to_string(size >> 18) +
                  " MiB of memory for its values, found less; use more machine or fewer tokens");
    }
    std::size_t first = 0;
    for (std::size_t f = 0; f < stored.size(); ++f) {
      const StoredRows& part = rows(stored[f].layers[index]);
      hashes[{f, layer, name}] =
          ReadRows(stored[f].file.get(), part.array, part.axes, first, num_rows, out.values);
      CheckFinite(out, first, part.shape.tokens(), part.array.where);
      first += part.shape.tokens();
    }
    return out;
  }

  std::vector<float> ReadChecked(std::size_t file, int layer, const char* name, const StoredArray& array) {
    std::vector<float> values = ReadFloats(stored[file].file.get(), array, &hashes[{file, layer, name}]);
    CheckFinite(values, array.where);
    return values;
  }

  void AddHash(std::size_t file, int layer, const char* name, const StoredArray& array) {
    std::string& hash = hashes[{file, layer, name}];
    if (hash.empty())
      hash = VisitStored(stored[file].file.get(), array, [](std::size_t, std::span<std::byte>) {});
  }
};

KvDump::KvDump(const std::vector<std::filesystem::path>& paths, const DumpOptions& options)
    : impl_(std::make_unique<Impl>()) {
  options.Check();
  if (paths.empty()) throw UsageError("expected at least one dump, found none");
  impl_->options = options;
  for (const auto& path : paths) {
    impl_->stored.push_back(OpenDumpFile(path, options));
    if (impl_->stored.size() > 1) CheckSameModel(impl_->stored.front(), impl_->stored.back());
    impl_->files.push_back(impl_->stored.back().info);
    impl_->num_tokens += impl_->files.back().num_tokens;
  }
  if (impl_->num_tokens < DumpOptions::kMinTokens && !options.allow_few_tokens)
    throw Error(paths.front().string() + ": expected at least " + std::to_string(DumpOptions::kMinTokens) +
                " tokens, found " + std::to_string(impl_->num_tokens) +
                (paths.size() > 1 ? " in all files" : "") + "; dump more text, or pass --allow-few-tokens");
  for (std::size_t i = 0; i < impl_->stored.front().layers.size(); ++i)
    impl_->layers.push_back(impl_->Describe(i));
}

KvDump::~KvDump() = default;

const std::string& KvDump::model() const {
  const auto said =
      std::ranges::find_if(impl_->stored, [](const StoredFile& file) { return !file.model.empty(); });
  return said == impl_->stored.end() ? impl_->stored.front().model : said->model;
}

int KvDump::num_model_layers() const {
  int num_layers = 0;
  for (const StoredFile& file : impl_->stored) num_layers = std::max(num_layers, file.num_layers);
  return num_layers;
}

const std::vector<DumpFile>& KvDump::files() const { return impl_->files; }
std::uint64_t KvDump::num_tokens() const { return impl_->num_tokens; }
const std::vector<LayerInfo>& KvDump::layers() const { return impl_->layers; }
const LayerInfo& KvDump::layer(int layer) const { return impl_->layers[impl_->Index(layer)]; }

Activations KvDump::Read(int layer, Side side) const {
  Activations out =
      impl_->ReadAll(layer, SideName(side), impl_->num_tokens,
                     [side](const StoredLayer& stored) -> const StoredRows& { return stored.side(side); });
  std::vector<int> constant = FindConstantHeads(out);
  if (!constant.empty() && !impl_->options.allow_constant_heads) {
    const StoredArray& array = impl_->stored.front().layers[impl_->Index(layer)].side(side).array;
    throw Error(array.where + ": expected values that differ from token to token, found head " +
                std::to_string(constant.front()) + " to be " + DescribeConstantHead(out, constant.front()) +
                "; heads like that: " + std::to_string(constant.size()) +
                "; check the dump, or pass --allow-constant-heads");
  }
  impl_->constant_heads[{layer, side}] = std::move(constant);
  return out;
}

std::vector<int> KvDump::ConstantHeads(int layer, Side side) const {
  const auto found = impl_->constant_heads.find({layer, side});
  SO4CAL_CHECK(found != impl_->constant_heads.end());  // Read() first
  return found->second;
}

std::optional<Queries> KvDump::ReadQueries(int layer) const {
  const std::size_t index = impl_->Index(layer);
  const auto& info = impl_->layers[index].q;
  if (!info) return std::nullopt;
  Queries queries;
  queries.rows = impl_->ReadAll(layer, "q", info->num_rows,
                                [](const StoredLayer& stored) -> const StoredRows& { return *stored.q; });
  std::uint64_t first_token = 0;
  for (const StoredFile& file : impl_->stored) {
    const StoredLayer& stored = file.layers[index];
    for (std::uint64_t row = 0; row < stored.q->shape.tokens(); ++row)
      queries.positions.push_back(
          first_token + (stored.q_positions ? static_cast<std::uint64_t>((*stored.q_positions)[row]) : row));
    first_token += file.info.num_tokens;
  }
  return queries;
}

std::optional<std::vector<double>> KvDump::ReadQueryMoment(int layer) const {
  const std::size_t index = impl_->Index(layer);
  if (!impl_->layers[index].has_q_moment) return std::nullopt;
  std::vector<double> moment;
  for (std::size_t f = 0; f < impl_->stored.size(); ++f) {
    const std::vector<float> part =
        impl_->ReadChecked(f, layer, "q_moment", *impl_->stored[f].layers[index].q_moment);
    moment.resize(part.size(), 0.0);
    const double weight =
        static_cast<double>(impl_->files[f].num_tokens) / static_cast<double>(impl_->num_tokens);
    for (std::size_t i = 0; i < part.size(); ++i) moment[i] += weight * static_cast<double>(part[i]);
  }
  return moment;
}

std::optional<KvDump::Matrix> KvDump::ReadOutputProjection(int layer) const {
  const auto& array = impl_->stored.front().layers[impl_->Index(layer)].w_o;
  if (!array) return std::nullopt;
  return Matrix{array->extents[0], array->extents[1], impl_->ReadChecked(0, layer, "w_o", *array)};
}

std::vector<std::map<std::string, std::string>> KvDump::Hashes(int layer) const {
  const std::size_t index = impl_->Index(layer);
  for (std::size_t f = 0; f < impl_->stored.size(); ++f) {
    const StoredLayer& stored = impl_->stored[f].layers[index];
    impl_->AddHash(f, layer, "k", stored.k.array);
    impl_->AddHash(f, layer, "v", stored.v.array);
    if (stored.q) impl_->AddHash(f, layer, "q", stored.q->array);
    if (stored.q_moment) impl_->AddHash(f, layer, "q_moment", *stored.q_moment);
    if (stored.w_o) impl_->AddHash(f, layer, "w_o", *stored.w_o);
  }
  return HashesOfRead(layer);
}

std::vector<std::map<std::string, std::string>> KvDump::HashesOfRead(int layer) const {
  const std::size_t index = impl_->Index(layer);
  std::vector<std::map<std::string, std::string>> hashes(impl_->stored.size());
  for (const auto& [key, hash] : impl_->hashes)
    if (const auto& [file, of_layer, name] = key; of_layer == layer) hashes[file][name] = hash;
  for (std::size_t f = 0; f < hashes.size(); ++f)
    if (const auto& positions = impl_->stored[f].layers[index].q_positions;
        positions && hashes[f].contains("q"))
      hashes[f]["q_positions"] = ContentHash(std::as_bytes(std::span(*positions)));
  return hashes;
}

}  // namespace so4cal
