// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/activations.h"

namespace so4cal {

// How to find and read the datasets of a dump; FORMATS.md, "The dump". Bound to command line options.
struct DumpOptions {
  std::string axes;            // overrides the file's `axes` attribute; empty: as the file says
  std::string key_name = "k";  // dataset inside /layers/<i>, or a path with {layer}
  std::string value_name = "v";
  bool allow_constant_heads = false;
  bool allow_few_tokens = false;  // fewer than kMinTokens
  static constexpr std::uint64_t kMinTokens = 256;
  void Check() const;  // throws UsageError
};

// One file of the dump. Token indices are those of the file.
struct DumpFile {
  std::string name;  // base name
  std::filesystem::path path;
  std::uint64_t size_bytes = 0;
  std::uint64_t num_tokens = 0;
  std::vector<std::uint64_t> sequence_starts;  // ascending, first is 0
};

// Shape of one dataset as stored in the (first) file, for `inspect`.
struct DatasetInfo {
  int num_heads = 0;
  int channels = 0;
  std::uint64_t num_rows = 0;  // over all files
  std::string dtype;           // f16, bf16, f32, f64, and how a bf16 is spelled
  std::string axes;
  std::string filters;  // "none", "shuffle, deflate 4"
};

struct LayerInfo {
  int layer = 0;  // global layer id
  DatasetInfo k, v;
  std::optional<DatasetInfo> q;  // num_rows: query rows, all tokens or given by q_positions
  bool has_q_positions = false, has_q_moment = false, has_w_o = false;
  double softmax_scale = 0;  // attribute, or 1/sqrt(D)
  std::optional<std::int64_t> sliding_window;
  bool softmax_sink = false;            // learned sink logits: value offsets are not exact there
  std::optional<double> logit_softcap;  // c: the model's logits are c tanh(logit / c)
};

// Query rows of one layer with the token that each belongs to.
struct Queries {
  Activations rows;                      // [Hq][Tq][D]
  std::vector<std::uint64_t> positions;  // token index over all files, one per query row
};

// A dump of one model: one or several HDF5 files whose tokens are concatenated per layer.
// Everything is validated when opened (shapes, types, filters); values when read (NaN, Inf, constant heads).
// Every error is an Error that names file, dataset, expected, found and what to do. Not thread-safe.
class KvDump {
 public:
  KvDump(const std::vector<std::filesystem::path>& paths, const DumpOptions& options);
  ~KvDump();

  const std::string& model() const;
  int num_model_layers() const;  // of the model; 0 when the dump does not say
  const std::vector<DumpFile>& files() const;
  std::uint64_t num_tokens() const;              // over all files
  const std::vector<LayerInfo>& layers() const;  // ascending, those that the dump has
  const LayerInfo& layer(int layer) const;       // Error when absent

  // Keys or values of one layer over all files. Peak memory: the result and one row of chunks as raw bytes,
  // or 4 MiB where that is more (FORMATS.md, "Types").
  Activations Read(int layer, Side side) const;
  // Heads that are constant or all zero, as the Read() of this layer and side found, which must have been
  // called; empty unless allow_constant_heads, since Read() throws then.
  std::vector<int> ConstantHeads(int layer, Side side) const;

  std::optional<Queries> ReadQueries(int layer) const;
  // [Hkv][D][D], in f32's precision; of several files the mean, weighted by tokens.
  std::optional<std::vector<double>> ReadQueryMoment(int layer) const;
  struct Matrix {
    std::size_t rows = 0, cols = 0;
    std::vector<float> values;  // row-major
  };
  std::optional<Matrix> ReadOutputProjection(int layer) const;  // [M][Hq * Dv]; of the first file

  // Content hashes (XXH3, 128 bits, hex) of the named datasets of one layer, per file: "k", "v", and the
  // optional ones that are there. Of the stored values in file order, before any filter. What was read
  // already is not read again.
  std::vector<std::map<std::string, std::string>> Hashes(int layer) const;
  // Only of the datasets that the Read functions above have read so far; reads nothing.
  std::vector<std::map<std::string, std::string>> HashesOfRead(int layer) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace so4cal
