// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_layout.h"

#include <algorithm>
#include <charconv>

#include "formats/hdf5_read.h"

namespace so4cal {
namespace {

constexpr const char* kPlaceholder = "{layer}";

// A number from a link name, zero-padded or not.
std::optional<int> LayerNumber(const std::string& text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || text[0] == '-' || error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::string Listed(const std::vector<std::string>& names) {
  if (names.empty()) return "nothing";
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 8); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  return names.size() > 8 ? text + ", ..." : text;
}

std::string WithLayer(std::string path, const std::string& layer) {
  const std::string placeholder = kPlaceholder;
  for (std::size_t at; (at = path.find(placeholder)) != std::string::npos;)
    path.replace(at, placeholder.size(), layer);
  return path;
}

std::string Parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

void RequireDataset(hid_t file, const std::string& file_name, const std::string& path, const char* option) {
  const ObjectKind kind = KindOf(file, path);
  if (kind == ObjectKind::kDataset) return;
  const std::string group = Parent(path).empty() ? "/" : Parent(path);
  std::string found = "found none at all";
  if (kind != ObjectKind::kNone) {
    found = "found a group of that name";
  } else if (KindOf(file, group) == ObjectKind::kGroup) {
    found = "found " + Listed(LinkNames(file, group, file_name)) + " in " + group;
  }
  throw Error(file_name + ": expected the dataset " + path + ", " + found + "; write it, or say with " +
              option + " what it is called");
}

// Layers whose links in `parent` are called prefix + number + suffix.
std::vector<std::pair<int, std::string>> Numbered(hid_t file, const std::string& file_name,
                                                  const std::string& parent, const std::string& prefix,
                                                  const std::string& suffix) {
  std::vector<std::pair<int, std::string>> layers;
  for (const std::string& name : LinkNames(file, parent, file_name + ": " + parent)) {
    if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix))
      continue;
    const std::string digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (const auto number = LayerNumber(digits)) layers.emplace_back(*number, digits);
  }
  std::sort(layers.begin(), layers.end());
  for (std::size_t i = 1; i < layers.size(); ++i)
    if (layers[i].first == layers[i - 1].first)
      throw Error(file_name + ": " + parent + ": layer " + std::to_string(layers[i].first) +
                  " is there twice, as " + layers[i - 1].second + " and " + layers[i].second + "; keep one");
  return layers;
}

std::vector<LayerPaths> FromGroups(hid_t file, const std::string& file_name, const DumpOptions& options) {
  std::vector<LayerPaths> layers;
  for (const auto& [number, digits] : Numbered(file, file_name, "/layers", "", "")) {
    const std::string group = "/layers/" + digits;
    layers.push_back({number, group, group + "/" + options.key_name, group + "/" + options.value_name, {}});
  }
  const auto names = LinkNames(file, "/layers", file_name);
  if (layers.size() != names.size() || layers.empty())
    throw Error(file_name + ": /layers: expected groups called by the layer's number, found " +
                Listed(names) + "; name them /layers/0, /layers/1 and so on");
  return layers;
}

std::vector<LayerPaths> FromTemplates(hid_t file, const std::string& file_name, const DumpOptions& options) {
  const auto absolute = [](const std::string& path) { return path[0] == '/' ? path : "/" + path; };
  const std::string key = absolute(options.key_name), value = absolute(options.value_name);
  const std::size_t at = key.find(kPlaceholder), begin = key.rfind('/', at), end = key.find('/', at);
  const std::string parent = begin == 0 ? "/" : key.substr(0, begin);
  const std::string name = key.substr(begin + 1, end == std::string::npos ? end : end - begin - 1);
  const std::size_t inside = name.find(kPlaceholder);
  std::vector<std::pair<int, std::string>> numbers;
  if (KindOf(file, parent) == ObjectKind::kGroup)
    numbers = Numbered(file, file_name, parent, name.substr(0, inside),
                       WithLayer(name.substr(inside + std::string(kPlaceholder).size()), ""));
  if (numbers.empty()) throw Error(file_name + ": no layer has the dataset " + key + "; correct --key-name");
  const bool own_group = Parent(key).find(kPlaceholder) != std::string::npos;
  std::vector<LayerPaths> layers;
  for (const auto& [number, digits] : numbers)
    layers.push_back({number,
                      own_group ? WithLayer(Parent(key), digits) : "",
                      WithLayer(key, digits),
                      WithLayer(value, digits),
                      {}});
  return layers;
}

// One dataset with a layer axis: its place along that axis is the layer's number.
std::vector<LayerPaths> FromStack(hid_t file, const std::string& file_name, const DumpOptions& options) {
  const std::string key = "/" + options.key_name, value = "/" + options.value_name;
  const QuietHdf5Errors quiet;
  const std::string where = file_name + ": " + key;
  const Hid dataset(H5Check(H5Dopen2(file, key.c_str(), H5P_DEFAULT), where), H5Dclose);
  const auto extents = ExtentsOf(dataset.get(), where);
  if (extents.size() < 4 || extents[0] == 0 || extents[0] > 100000)
    throw Error(
        where +
        ": expected the axes layer,token,head,channel or more for a dataset at the root, found extents " +
        ExtentsText(extents) + "; write it so, or write /layers/<i>/" + options.key_name);
  std::vector<LayerPaths> layers;
  for (hsize_t i = 0; i < extents[0]; ++i) layers.push_back({static_cast<int>(i), "/", key, value, i});
  return layers;
}

}  // namespace

std::vector<LayerPaths> FindLayers(hid_t file, const std::string& file_name, const DumpOptions& options) {
  std::vector<LayerPaths> layers;
  if (options.key_name.find(kPlaceholder) != std::string::npos) {
    layers = FromTemplates(file, file_name, options);
  } else if (KindOf(file, "/layers") == ObjectKind::kGroup) {
    layers = FromGroups(file, file_name, options);
  } else if (KindOf(file, "/" + options.key_name) == ObjectKind::kDataset) {
    layers = FromStack(file, file_name, options);
  } else {
    throw Error(file_name + ": expected the group /layers, or /" + options.key_name +
                " with a layer axis, found " + Listed(LinkNames(file, "/", file_name)) +
                "; write /layers/<i>/k and v, or see --key-name");
  }
  for (const LayerPaths& paths : layers) {
    RequireDataset(file, file_name, paths.key, "--key-name");
    RequireDataset(file, file_name, paths.value, "--value-name");
  }
  return layers;
}

}  // namespace so4cal
