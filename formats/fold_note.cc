// SPDX-License-Identifier: Apache-2.0
#include "formats/fold_note.h"

#include "formats/atomic_file.h"
#include "formats/content_hash.h"
#include "formats/json_text.h"
#include "lib/version.h"

namespace so4cal {

std::string FoldNoteJson(const RotationTable& table, const std::filesystem::path& table_file,
                         const std::string& engine_rotation) {
  const std::string name = table_file.filename().string(), bytes = ReadFileBytes(table_file);
  std::string text =
      "{\"format\": \"so4cal-fold\", \"version\": 1, \"tool_version\": " + JsonString(kVersion, name) +
      ",\n \"table\": {\"name\": " + JsonString(name, name) + ", \"hash\": \"" +
      ContentHash(std::as_bytes(std::span(bytes))) + "\", \"model\": " + JsonString(table.model, name) +
      "},\n \"engine_rotation\": " + JsonString(engine_rotation, name) + ",\n \"layers\": [";
  for (const LayerTable& layer : table.layers)
    text += std::string(&layer == &table.layers[0] ? "\n" : ",\n") +
            "  {\"layer\": " + std::to_string(layer.layer) + ", \"value_table_hash\": \"" +
            SideTableHash(layer.side(Side::kValue)) + "\"}";
  return text + "\n ]}\n";
}

}  // namespace so4cal
