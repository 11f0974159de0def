// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/dump_dataset.h"
#include "formats/hdf5_handle.h"
#include "formats/kv_dump.h"

namespace so4cal {

struct StoredRows {
  StoredArray array;
  Axes axes;
  RowShape shape;
};

// One layer of one file, described and checked; no k, v, q values read.
struct StoredLayer {
  int layer = 0;
  StoredRows k, v;
  std::optional<StoredRows> q;
  std::optional<std::vector<std::int64_t>> q_positions;  // token of each query row, in the file
  std::optional<StoredArray> q_moment, w_o;
  double softmax_scale = 0;
  std::optional<std::int64_t> sliding_window;
  bool softmax_sink = false;
  std::optional<double> logit_softcap;

  const StoredRows& side(Side side) const { return side == Side::kKey ? k : v; }
};

struct StoredFile {
  Hid file;
  DumpFile info;
  std::string model;                // empty: not said
  int num_layers = 0;               // of the model; 0: not said
  std::vector<StoredLayer> layers;  // ascending
};

// Opens one file of a dump and checks everything that can be checked without reading values, except that
// it has enough tokens. Throws Error.
StoredFile OpenDumpFile(const std::filesystem::path& path, const DumpOptions& options);

}  // namespace so4cal
