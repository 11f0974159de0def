// SPDX-License-Identifier: Apache-2.0
#include "formats/content_hash.h"

#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace so4cal {

ContentHasher::ContentHasher()
    : state_(XXH3_createState(), [](XXH3_state_s* state) { XXH3_freeState(state); }) {
  XXH3_128bits_reset(state_.get());
}

void ContentHasher::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string ContentHasher::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

std::string ContentHash(std::span<const std::byte> bytes) {
  ContentHasher hasher;
  hasher.Update(bytes);
  return hasher.Hex();
}

std::string SideTableHash(const SideTable& side) {
  ContentHasher hasher;
  for (const HeadTable& head : side.heads) {
    const std::vector<std::uint8_t> bytes = SerializeHeadTable(side.codec, head);
    hasher.Update(std::as_bytes(std::span(bytes)));
  }
  return hasher.Hex();
}

}  // namespace so4cal
