// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "lib/rotation_table.h"

struct XXH3_state_s;

namespace so4cal {

// XXH3, 128 bits, of bytes that come piece by piece. The same on every machine.
class ContentHasher {
 public:
  ContentHasher();
  void Update(std::span<const std::byte> bytes);
  std::string Hex() const;  // of all bytes so far: 32 lower-case digits, high half first

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

std::string ContentHash(std::span<const std::byte> bytes);

// Of everything that encoder and decoder use: the head tables' bytes (lib/CODEC.md) one after another.
std::string SideTableHash(const SideTable& side);

}  // namespace so4cal
