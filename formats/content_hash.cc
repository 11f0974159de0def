// SPDX-License-Identifier: Apache-2.0
#include "formats/content_hash.h"

#include <xxhash.h>

#include <cstdio>
#include <vector>

namespace so4cal {

std::string ContentHash(std::span<const std::uint8_t> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

std::string SideTableHash(const SideTable& side) {
  std::vector<std::uint8_t> bytes;
  for (const HeadTable& head : side.heads) {
    const std::vector<std::uint8_t> table = SerializeHeadTable(side.codec, head);
    bytes.insert(bytes.end(), table.begin(), table.end());
  }
  return ContentHash(bytes);
}

}  // namespace so4cal
