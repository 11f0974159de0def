// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/dump_options.h"
#include "app/output_path.h"
#include "app/parallel.h"
#include "app/table_match.h"
#include "formats/content_hash.h"
#include "formats/kv_dump.h"
#include "formats/rows_file.h"
#include "formats/table_io.h"
#include "lib/error.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

struct EncodeArgs {
  std::filesystem::path dump, table, out;
  DumpOptions options;
  bool force = false;
};

PackedSide EncodeSide(const SideTable& table, const Activations& activations, const std::string& where) {
  PackedSide packed{table.codec, activations.num_heads, activations.num_tokens, SideTableHash(table), {}};
  const std::size_t head_bytes = activations.num_tokens * table.codec.row_bytes();
  packed.rows.resize(table.heads.size() * head_bytes);
  ParallelFor(table.heads.size(), [&](std::size_t h) {
    const HeadCodec codec(table.codec, table.heads[h]);
    const RowStatus status = codec.Encode(activations.head(static_cast<int>(h)),
                                          std::span(packed.rows).subspan(h * head_bytes, head_bytes));
    if (!status.ok())
      throw Error(fmt::format("{} head {}, token {}, channel {}: {}", where, h, status.row, status.channel,
                              RowErrorText(status.error)));
  });
  return packed;
}

int RunEncode(const EncodeArgs& args) {
  args.options.Check();
  CheckOutputPath(args.out, std::array{args.dump, args.table}, args.force);
  const RotationTable table = ReadTable(args.table);
  const KvDump dump({args.dump}, args.options);
  CheckTableFitsDump(table, dump);
  DumpHeader header{
      dump.model(), dump.num_model_layers(), dump.num_tokens(), dump.files()[0].sequence_starts, {}};
  for (const LayerTable& layer : table.layers) header.layers.push_back(layer.layer);
  WriteRowsFile(args.out, header, [&](int layer, Side side) {
    const std::string where = fmt::format("{}, layer {} {}", dump.files()[0].name, layer, SideName(side));
    return EncodeSide(table.FindLayer(layer)->side(side), dump.Read(layer, side), where);
  });
  fmt::print("wrote {} ({} tokens of {} layers, {} bytes)\n", args.out.string(), header.num_tokens,
             header.layers.size(), std::filesystem::file_size(args.out));
  return kExitDone;
}

}  // namespace

void AddEncodeCommand(CLI::App& app, CommandRun& run) {
  auto args = std::make_shared<EncodeArgs>();
  args->options.allow_constant_heads = true;
  args->options.allow_few_tokens = true;
  CLI::App* cmd =
      app.add_subcommand("encode", "Pack all tokens of a dump into rows, to test an engine's port");
  cmd->add_option("dump", args->dump, "Dump file")->required();
  cmd->add_option("--table", args->table, "Table from 'so4cal fit'; its layers are packed")->required();
  cmd->add_option("-o,--out", args->out, "Rows file to write (HDF5)")->required();
  AddDumpOptions(*cmd, args->options);
  cmd->add_flag("--force", args->force, "Replace an existing output");
  cmd->callback([args, &run] { run = [args] { return RunEncode(*args); }; });
}

}  // namespace so4cal
