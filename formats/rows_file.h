// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/kv_dump_writer.h"
#include "lib/codec_spec.h"

namespace so4cal {

// The rows of a dump as an engine's cache would hold them, for testing a port of the codec. HDF5:
//   /                         attrs: format = "so4cal-rows", version = 1, row_format_version = 1, model,
//                             num_layers (of the model; absent when unknown), tool_version
//   /sequence_starts          i64[S]
//   /layers/<i>/{k,v}_rows    u8[H, T, row_bytes], rows as in lib/CODEC.md, token after token in a head
//       attrs: head_dim, bits, block (numbers), grid, scale (words as on the command line),
//              table_hash (SideTableHash of the side that encoded them: only it can decode them)
struct PackedSide {
  CodecSpec codec;
  int num_heads = 0;
  std::uint64_t num_tokens = 0;
  std::string table_hash;
  std::vector<std::uint8_t> rows;  // [num_heads][num_tokens][codec.row_bytes()]
};

// Calls `encode` layer after layer, keys before values. Atomic; the same bytes for the same rows. Throws
// Error.
void WriteRowsFile(const std::filesystem::path& out, const DumpHeader& header,
                   const std::function<PackedSide(int layer, Side side)>& encode);

// Reads such a file; everything is validated when opened, except the rows' bytes (the decoder does that).
// Throws Error that names file, dataset, expected and found. Not thread-safe.
class RowsFile {
 public:
  explicit RowsFile(const std::filesystem::path& path);
  ~RowsFile();

  const DumpHeader& header() const;
  PackedSide Read(int layer, Side side) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace so4cal
