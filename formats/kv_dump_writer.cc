// SPDX-License-Identifier: Apache-2.0
#include "formats/kv_dump_writer.h"

#include "formats/atomic_file.h"
#include "formats/hdf5_write.h"

namespace so4cal {

void WriteKvDump(const std::filesystem::path& out, const DumpHeader& header,
                 const std::function<Activations(int layer, Side side)>& read) {
  WriteAtomically(out, [&](const std::filesystem::path& temporary) {
    Hdf5FileWriter file(temporary, out);
    file.Text("/", "rope", "post");
    file.Text("/", "axes", "head,token,channel");
    file.Text("/", "model", header.model);
    if (header.num_model_layers > 0)
      file.Number("/", "num_layers", static_cast<std::uint64_t>(header.num_model_layers));
    const std::vector<std::int64_t> starts(header.sequence_starts.begin(), header.sequence_starts.end());
    file.Dataset("/sequence_starts", starts, {starts.size()});
    file.Group("/layers");
    for (const int layer : header.layers) {
      const std::string group = "/layers/" + std::to_string(layer);
      file.Group(group);
      for (const Side side : kSides) {
        const Activations a = read(layer, side);
        file.Dataset(group + "/" + SideName(side), a.values,
                     {static_cast<hsize_t>(a.num_heads), a.num_tokens, static_cast<hsize_t>(a.channels)});
      }
      file.Flush();
    }
  });
}

}  // namespace so4cal
