// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace so4cal {

// Types in which files of weights and rotations keep numbers.
enum class ElementType : std::uint8_t { kF64, kF32, kF16, kBf16 };

std::size_t ElementBytes(ElementType type);
// Little-endian; `bytes` holds at least ElementBytes(type). Exact.
double LoadElement(ElementType type, const char* bytes);
// "F64", "F32", "F16", "BF16", the names of safetensors; nothing for other types.
std::optional<ElementType> ElementTypeOf(std::string_view safetensors_dtype);

}  // namespace so4cal
