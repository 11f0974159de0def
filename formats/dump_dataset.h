// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/dump_axes.h"
#include "formats/hdf5_types.h"

namespace so4cal {

// A dataset of numbers in a dump, described; opened again for each read, so that an open dump holds no
// chunk caches. Where one dataset holds all layers, this is the part of one layer: `extents` and `chunks`
// leave the layer axis out.
struct StoredArray {
  std::string path;   // in the file
  std::string where;  // "dump.h5: /layers/0/k", for messages
  ElementType type;
  std::vector<hsize_t> extents;
  std::vector<hsize_t> chunks;  // as extents; for contiguous storage all 1
  std::string filters;          // "none", "shuffle, deflate 4"
  std::optional<hsize_t> layer_index;

  std::size_t size() const;  // number of elements
};

// Describes /`path`; type and filters are checked, no value is read. layer_index: see above.
StoredArray DescribeArray(hid_t file, const std::string& file_name, const std::string& path,
                          std::optional<hsize_t> layer_index);

// Calls visit(first element, raw bytes) over the stored values in file order. Each call covers one or more
// whole rows of chunks, at least 4 MiB if there is as much, so that every chunk is read and unpacked once.
// The bytes are the visitor's to change. Returns the content hash of them all: XXH3, 128 bits, hex.
std::string VisitStored(hid_t file, const StoredArray& array,
                        const std::function<void(std::size_t, std::span<std::byte>)>& visit);

// All values in file order. `hash`, if given, gets the content hash.
std::vector<float> ReadFloats(hid_t file, const StoredArray& array, std::string* hash);

// Values of heads in the row order of Activations: those of this file go to tokens from first_token of
// `out`, which has the sizes of all files together. Returns the content hash.
std::string ReadRows(hid_t file, const StoredArray& array, const Axes& axes, std::size_t first_token,
                     std::size_t num_tokens, std::span<float> out);

}  // namespace so4cal
