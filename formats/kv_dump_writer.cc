// SPDX-License-Identifier: Apache-2.0
#include "formats/kv_dump_writer.h"

#include "formats/layered_file.h"

namespace so4cal {

void WriteKvDump(const std::filesystem::path& out, const DumpHeader& header,
                 const std::function<Activations(int layer, Side side)>& read) {
  const auto attributes = [](Hdf5FileWriter& file) {
    file.Text("/", "rope", "post");
    file.Text("/", "axes", "head,token,channel");
  };
  WriteLayeredFile(
      out, header, attributes, [&](Hdf5FileWriter& file, const std::string& group, int layer, Side side) {
        const Activations a = read(layer, side);
        file.Dataset(group + "/" + SideName(side), a.values,
                     {static_cast<hsize_t>(a.num_heads), a.num_tokens, static_cast<hsize_t>(a.channels)});
      });
}

}  // namespace so4cal
