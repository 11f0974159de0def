// SPDX-License-Identifier: Apache-2.0
#include "formats/layered_file.h"

#include "formats/atomic_file.h"

namespace so4cal {

void WriteLayeredFile(
    const std::filesystem::path& out, const DumpHeader& header,
    const std::function<void(Hdf5FileWriter& file)>& attributes,
    const std::function<void(Hdf5FileWriter& file, const std::string& group, int layer, Side side)>& side) {
  WriteAtomically(out, [&](const std::filesystem::path& temporary) {
    Hdf5FileWriter file(temporary, out);
    attributes(file);
    file.Text("/", "model", header.model);
    if (header.num_model_layers > 0)
      file.Number("/", "num_layers", static_cast<std::uint64_t>(header.num_model_layers));
    const std::vector<std::int64_t> starts(header.sequence_starts.begin(), header.sequence_starts.end());
    file.Dataset("/sequence_starts", starts, {starts.size()});
    file.Group("/layers");
    for (const int layer : header.layers) {
      const std::string group = "/layers/" + std::to_string(layer);
      file.Group(group);
      for (const Side which : kSides) side(file, group, layer, which);
      file.Flush();
    }
  });
}

}  // namespace so4cal
