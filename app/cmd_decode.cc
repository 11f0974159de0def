// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/output_path.h"
#include "app/parallel.h"
#include "formats/content_hash.h"
#include "formats/kv_dump_writer.h"
#include "formats/rows_file.h"
#include "formats/table_io.h"
#include "lib/error.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

struct DecodeArgs {
  std::filesystem::path rows, table, out;
  bool force = false;
};

// The side of the table that encoded these rows. Throws Error for any other.
const SideTable& EncodingSide(const RotationTable& table, const PackedSide& packed, int layer, Side side,
                              const std::string& file) {
  const LayerTable* found = table.FindLayer(layer);
  const std::string where = fmt::format("{}, layer {} {}", file, layer, SideName(side));
  if (found == nullptr)
    throw Error(where + ": the table has no such layer: give the table that encoded the rows");
  const SideTable& candidate = found->side(side);
  if (SideTableHash(candidate) != packed.table_hash ||
      candidate.heads.size() != static_cast<std::size_t>(packed.num_heads))
    throw Error(where + ": the rows were encoded with another table: give that one");
  return candidate;
}

Activations DecodeSide(const SideTable& table, const PackedSide& packed, const std::string& where) {
  const auto channels = static_cast<std::size_t>(table.codec.head_dim);
  Activations out{packed.num_heads, packed.num_tokens, table.codec.head_dim, {}};
  out.values.resize(table.heads.size() * packed.num_tokens * channels);
  const std::size_t head_bytes = packed.num_tokens * table.codec.row_bytes();
  const std::size_t head_values = packed.num_tokens * channels;
  ParallelFor(table.heads.size(), [&](std::size_t h) {
    const HeadCodec codec(table.codec, table.heads[h]);
    const RowStatus status = codec.Decode(std::span(packed.rows).subspan(h * head_bytes, head_bytes),
                                          std::span(out.values).subspan(h * head_values, head_values));
    if (!status.ok())
      throw Error(fmt::format("{} head {}, token {}, channel {}: {}", where, h, status.row, status.channel,
                              RowErrorText(status.error)));
  });
  return out;
}

int RunDecode(const DecodeArgs& args) {
  CheckOutputPath(args.out, std::array{args.rows, args.table}, args.force);
  const RotationTable table = ReadTable(args.table);
  const RowsFile rows(args.rows);
  const std::string name = args.rows.filename().string();
  WriteKvDump(args.out, rows.header(), [&](int layer, Side side) {
    const PackedSide packed = rows.Read(layer, side);
    return DecodeSide(EncodingSide(table, packed, layer, side, name), packed,
                      fmt::format("{}, layer {} {}", name, layer, SideName(side)));
  });
  fmt::print("wrote {} ({} tokens of {} layers)\n", args.out.string(), rows.header().num_tokens,
             rows.header().layers.size());
  return kExitDone;
}

}  // namespace

void AddDecodeCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<DecodeArgs>();
  CLI::App* cmd = app.add_subcommand("decode", "Unpack rows from 'so4cal encode' into a dump");
  cmd->add_option("rows", args->rows, "Rows file")->required();
  cmd->add_option("--table", args->table, "The table that encoded them")->required();
  cmd->add_option("-o,--out", args->out, "Dump to write (HDF5, f32)")->required();
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunDecode(*args); }; });
}

}  // namespace so4cal
