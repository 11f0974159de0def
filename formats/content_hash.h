// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/rotation_table.h"

namespace so4cal {

// XXH3, 128 bits, 32 lower-case hex digits: the hash of KvDump::Hashes. The same on every machine.
std::string ContentHash(std::span<const std::uint8_t> bytes);

// Of everything that encoder and decoder use: the head tables' bytes (lib/CODEC.md) one after another.
std::string SideTableHash(const SideTable& side);

}  // namespace so4cal
