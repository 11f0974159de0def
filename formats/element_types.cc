// SPDX-License-Identifier: Apache-2.0
#include "formats/element_types.h"

#include "formats/byte_writer.h"
#include "lib/half.h"

namespace so4cal {

std::size_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return 8;
    case ElementType::kF32:
      return 4;
    default:
      return 2;
  }
}

double LoadElement(ElementType type, const char* bytes) {
  switch (type) {
    case ElementType::kF64:
      return LoadLittleEndian<double>(bytes);
    case ElementType::kF32:
      return double{LoadLittleEndian<float>(bytes)};
    case ElementType::kF16:
      return double{FloatFromHalf(LoadLittleEndian<std::uint16_t>(bytes))};
    default:
      return double{FloatFromBfloat(LoadLittleEndian<std::uint16_t>(bytes))};
  }
}

std::optional<ElementType> ElementTypeOf(std::string_view safetensors_dtype) {
  if (safetensors_dtype == "F64") return ElementType::kF64;
  if (safetensors_dtype == "F32") return ElementType::kF32;
  if (safetensors_dtype == "F16") return ElementType::kF16;
  if (safetensors_dtype == "BF16") return ElementType::kBf16;
  return {};
}

}  // namespace so4cal
