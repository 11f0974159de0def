// SPDX-License-Identifier: Apache-2.0
#include "formats/dense_table.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <optional>

#include "formats/json_text.h"
#include "formats/recognize_blocks.h"
#include "lib/error.h"
#include "lib/version.h"

namespace so4cal {

const char kRowConventionText[] =
    "Row convention: y = (x - offset) @ rotation, x = y @ transpose(rotation) + offset, with one row x per "
    "token, x "
    "post-RoPE. rotation = transpose(U), row-major, of the map that `chosen` selects (0 identity, 1 "
    "hadamard, 2 fitted, "
    "3 dense).";

namespace {

using Json = nlohmann::ordered_json;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kExactTolerance = 1e-4;  // HeadTransform::Check()
constexpr double kBf16Tolerance = 5e-3;   // OSCAR's loader
constexpr double kBlockTolerance = 1e-5;  // entries in f32, products of up to 1024 of them
constexpr char kReorthogonalized[] = "heads made orthogonal on import";

// U of one head: checked, and made orthogonal where 16-bit entries are not quite.
std::vector<double> Orthogonal(const std::vector<float>& rotation, int head_dim, bool& changed,
                               const std::string& where) {
  const Matrix r = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
                       rotation.data(), head_dim, head_dim)
                       .cast<double>();
  const double error = (r * r.transpose() - Matrix::Identity(head_dim, head_dim)).cwiseAbs().maxCoeff();
  if (!(error <= kBf16Tolerance))
    throw Error(where + ": is not orthogonal: entries of R R^T - I up to " + std::to_string(error) +
                ", expected at most 0.005");
  Matrix u = r.transpose();
  changed = error > kExactTolerance;
  // Newton's iteration to the nearest orthogonal matrix: each step squares an error that begins at 5e-3.
  for (int step = 0; changed && step < 4; ++step) u = 1.5 * u - 0.5 * (u * u.transpose() * u).eval();
  return {u.data(), u.data() + u.size()};
}

// All heads in one form, or nothing. A head that is the identity fits every form.
std::optional<std::vector<HeadTable>> AsBlocks(const std::vector<std::vector<double>>& us, int head_dim,
                                               bool hadamard) {
  std::vector<HeadTable> heads;
  for (const std::vector<double>& u : us) {
    HeadTable head;
    std::optional<HeadTransform> transform = RecognizeBlocks(u, head_dim, hadamard, kBlockTolerance);
    if (!transform && IsIdentity(u, head_dim, kBlockTolerance)) {
      head.chosen = Chosen::kIdentity;
      transform = HeadTransform{head_dim, hadamard, {}, IdentityStages(head_dim, std::vector{1}), {}, {}};
    }
    if (!transform) return {};
    head.transform = std::move(*transform);
    heads.push_back(std::move(head));
  }
  return heads;
}

std::vector<HeadTable> AsDense(std::vector<std::vector<double>> us, int head_dim) {
  std::vector<HeadTable> heads;
  for (std::vector<double>& u : us) {
    HeadTable head;
    head.chosen = Chosen::kDense;
    head.transform.head_dim = head_dim;
    head.transform.dense = std::move(u);
    heads.push_back(std::move(head));
  }
  return heads;
}

std::string SideWhere(const std::string& where, int layer, Side side) {
  return where + ": layer " + std::to_string(layer) + " " + SideName(side);
}

// One rotation for the layer: as many heads as the other side, the file or the caller says.
void RepeatForHeads(DenseSide& side, std::size_t num_heads) {
  if (side.rotations.size() == 1) side.rotations.resize(num_heads, side.rotations.front());
  if (side.offsets.size() == 1) side.offsets.resize(num_heads, side.offsets.front());
}

SideTable MakeSide(const DenseSide& dense, const CodecSpec& codec, std::uint64_t& reorthogonalized,
                   const std::string& where) {
  SideTable side;
  side.codec = codec;
  const int d = dense.head_dim;
  if (!dense.offsets.empty() && dense.offsets.size() != dense.rotations.size())
    throw Error(where + ": has offsets for " + std::to_string(dense.offsets.size()) +
                " heads and rotations for " + std::to_string(dense.rotations.size()));
  std::vector<std::vector<double>> us;
  for (std::size_t h = 0; h < dense.rotations.size(); ++h) {
    bool changed = false;
    us.push_back(Orthogonal(dense.rotations[h], d, changed, where + " head " + std::to_string(h)));
    reorthogonalized += changed;
  }
  std::optional<std::vector<HeadTable>> blocks = AsBlocks(us, d, /*hadamard=*/true);
  if (!blocks) blocks = AsBlocks(us, d, /*hadamard=*/false);
  side.family = blocks ? Family::kSo4 : Family::kDense;
  side.heads = blocks ? std::move(*blocks) : AsDense(std::move(us), d);
  for (std::size_t h = 0; h < dense.offsets.size(); ++h) side.heads[h].transform.offset = dense.offsets[h];
  side.shared = std::all_of(dense.rotations.begin(), dense.rotations.end(),
                            [&](const auto& r) { return r == dense.rotations.front(); });
  side.outcomes.resize(side.heads.size());
  return side;
}

CodecSpec DefaultCodec(int head_dim) {
  CodecSpec codec;
  codec.head_dim = head_dim;
  while (codec.block > 8 && head_dim % codec.block != 0) codec.block /= 2;
  return codec;
}

Json CodecJson(const CodecSpec& codec) {
  return {{"bits", codec.bits},
          {"block", codec.block},
          {"grid", NameOf(GridKinds(), codec.grid)},
          {"scale", NameOf(ScaleRules(), codec.scale)}};
}

CodecSpec ParseCodec(const Json& json, int head_dim) {
  CodecSpec codec;
  codec.head_dim = head_dim;
  json.at("bits").get_to(codec.bits);
  json.at("block").get_to(codec.block);
  codec.grid = ParseName(GridKinds(), json.at("grid").get<std::string>(), "grid");
  codec.scale = ParseName(ScaleRules(), json.at("scale").get<std::string>(), "scale");
  return codec;
}

}  // namespace

std::vector<float> RowRotation(const HeadTable& head) {
  const auto d = static_cast<std::size_t>(head.transform.head_dim);
  const std::vector<double> u = DenseMatrix(head.Effective());
  std::vector<float> r(d * d);
  for (std::size_t row = 0; row < d; ++row)
    for (std::size_t column = 0; column < d; ++column)
      r[row * d + column] = static_cast<float>(u[column * d + row]);
  return r;
}

std::vector<DenseLayer> ToDense(const RotationTable& table) {
  table.Check();
  std::vector<DenseLayer> layers;
  for (const LayerTable& layer : table.layers) {
    layers.push_back({layer.layer, {}});
    for (const Side s : kSides) {
      const SideTable& side = layer.side(s);
      DenseSide& dense = layers.back().side(s);
      dense.head_dim = side.codec.head_dim;
      bool any_offset = false;
      for (const HeadTable& head : side.heads) {
        dense.rotations.push_back(RowRotation(head));
        any_offset |= !head.transform.offset.empty();
      }
      for (std::size_t h = 0; any_offset && h < side.heads.size(); ++h) {
        dense.offsets.push_back(side.heads[h].transform.offset);
        dense.offsets.back().resize(static_cast<std::size_t>(dense.head_dim));
      }
    }
  }
  return layers;
}

std::string DenseProvenance(const RotationTable& table, const std::string& where) {
  Json json;
  json["tool_version"] = table.tool_version;
  json["model"] = table.model;
  json["num_model_layers"] = table.num_model_layers;
  json["options"] = table.options_json;
  for (const DumpRecord& dump : table.dumps) json["dumps"].push_back(dump.name);
  for (const LayerTable& layer : table.layers)
    for (const Side s : kSides)
      json["layers"][std::to_string(layer.layer)][SideName(s)] = CodecJson(layer.side(s).codec);
  try {
    return json.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(where + ": the model's name or a dump's is not UTF-8: rename it");
  }
}

RotationTable TableFromDense(std::vector<DenseLayer> layers, const std::string& provenance,
                             const ReadOptions& options, const std::string& where) {
  const Json known = provenance.empty() ? Json::object() : ParseJson(provenance, where + ": provenance");
  RotationTable table;
  table.tool_version = kVersion;
  table.options_json = "{}";
  std::sort(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.layer < b.layer; });
  try {
    if (!provenance.empty()) {
      known.at("tool_version").get_to(table.tool_version);
      known.at("model").get_to(table.model);
      known.at("num_model_layers").get_to(table.num_model_layers);
      known.at("options").get_to(table.options_json);
    }
    for (DenseLayer& dense : layers) {
      LayerTable layer;
      layer.layer = dense.layer;
      const std::size_t num_heads =
          std::max({dense.sides[0].rotations.size(), dense.sides[1].rotations.size(),
                    static_cast<std::size_t>(std::max(options.num_kv_heads, 1))});
      std::uint64_t reorthogonalized = 0;
      for (const Side s : kSides) {
        DenseSide& side = dense.side(s);
        RepeatForHeads(side, num_heads);
        const CodecSpec codec =
            !provenance.empty()
                ? ParseCodec(known.at("layers").at(std::to_string(dense.layer)).at(SideName(s)),
                             side.head_dim)
            : options.codec ? options.codec(s, side.head_dim)
                            : DefaultCodec(side.head_dim);
        layer.side(s) = MakeSide(side, codec, reorthogonalized, SideWhere(where, dense.layer, s));
      }
      if (reorthogonalized > 0) layer.counts[kReorthogonalized] = reorthogonalized;
      table.layers.push_back(std::move(layer));
    }
  } catch (const nlohmann::json::exception& e) {
    throw Error(where + ": so4cal's provenance in it is damaged (" + e.what() + ")");
  }
  try {
    table.Check();
  } catch (const Error& e) {
    throw Error(where + ": " + e.what());
  }
  return table;
}

}  // namespace so4cal
