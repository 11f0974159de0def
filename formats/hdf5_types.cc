// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5_types.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "formats/hdf5_read.h"
#include "lib/convert.h"

namespace so4cal {
namespace {

using Kind = ElementType::Kind;

struct FloatFields {
  Kind kind;
  const char* name;
  std::size_t size;
  // Bit positions and widths, as H5Tget_fields gives them.
  std::size_t sign, exponent, exponent_bits, mantissa, mantissa_bits, bias;
};
constexpr FloatFields kFloats[] = {
    {Kind::kF16, "f16", 2, 15, 10, 5, 0, 10, 15},
    {Kind::kBf16, "bf16", 2, 15, 7, 8, 0, 7, 127},
    {Kind::kF32, "f32", 4, 31, 23, 8, 0, 23, 127},
    {Kind::kF64, "f64", 8, 63, 52, 11, 0, 52, 1023},
};

ElementType Make(Kind kind, std::string name, std::size_t size, hid_t type) {
  const bool big = H5Tget_order(type) == H5T_ORDER_BE;
  return {kind, big, size, big ? name + " (big-endian)" : name};
}

ElementType IdentifyFloat(hid_t type, const std::string& where) {
  const std::size_t size = H5Tget_size(type);
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  H5Check(H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits), where);
  const std::size_t bias = H5Tget_ebias(type);
  const H5T_order_t order = H5Tget_order(type);
  const bool plain =
      (order == H5T_ORDER_LE || order == H5T_ORDER_BE) && H5Tget_norm(type) == H5T_NORM_IMPLIED;
  for (const FloatFields& f : kFloats) {
    if (plain && size == f.size && sign == f.sign && exponent == f.exponent &&
        exponent_bits == f.exponent_bits && mantissa == f.mantissa && mantissa_bits == f.mantissa_bits &&
        bias == f.bias)
      return Make(f.kind, f.name, size, type);
  }
  throw Error(where + ": expected f16, bf16, f32 or f64, found a float of " + std::to_string(size) +
              " bytes with " + std::to_string(exponent_bits) + " exponent and " +
              std::to_string(mantissa_bits) + " mantissa bits");
}

[[noreturn]] void RefuseInteger(hid_t type, const std::string& where) {
  const std::size_t size = H5Tget_size(type);
  const std::string found =
      std::string(H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + std::to_string(8 * size);
  if (size != 2) throw Error(where + ": expected f16, bf16, f32 or f64, found " + found);
  throw Error(where + ": expected f16, bf16, f32 or f64, found " + found +
              "; if these are bf16 bit patterns, give the dataset the attribute dtype = \"bfloat16\"");
}

template <typename T>
T Swapped(T value) {
  auto* bytes = reinterpret_cast<std::byte*>(&value);
  std::reverse(bytes, bytes + sizeof(T));
  return value;
}

template <typename T>
std::span<T> As(const ElementType& type, std::span<std::byte> raw) {
  const std::span<T> words(reinterpret_cast<T*>(raw.data()), raw.size() / sizeof(T));
  if (type.big_endian) std::transform(words.begin(), words.end(), words.begin(), Swapped<T>);
  return words;
}

}  // namespace

ElementType IdentifyElement(hid_t dataset, const std::string& where) {
  const QuietHdf5Errors quiet;
  const Hid type(H5Check(H5Dget_type(dataset), where), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_FLOAT) return IdentifyFloat(type.get(), where);
  const bool two_bytes = H5Tget_size(type.get()) == 2;
  if ((kind == H5T_INTEGER || kind == H5T_OPAQUE) && two_bytes) {
    const auto dtype = ReadTextAttribute(dataset, "dtype", where);
    if (dtype && *dtype != "bfloat16")
      throw Error(where + ": attribute `dtype`: expected bfloat16 for 2-byte bit patterns, found " + *dtype);
    if (kind == H5T_OPAQUE) return {Kind::kBf16, false, 2, "bf16 (opaque)"};
    if (dtype) return Make(Kind::kBf16, "bf16 (uint16)", 2, type.get());
  }
  if (kind == H5T_INTEGER) RefuseInteger(type.get(), where);
  throw Error(
      where + ": expected f16, bf16, f32 or f64, found " +
      (kind == H5T_OPAQUE ? std::to_string(H5Tget_size(type.get())) + " opaque bytes" : "another type"));
}

void ToFloat(const ElementType& type, std::span<std::byte> raw, std::span<float> values) {
  SO4CAL_CHECK(raw.size() == values.size() * type.size);
  switch (type.kind) {
    case Kind::kF16:
      return F16ToF32(As<std::uint16_t>(type, raw), values);
    case Kind::kBf16:
      return Bf16ToF32(As<std::uint16_t>(type, raw), values);
    case Kind::kF32:
      As<std::uint32_t>(type, raw);
      std::memcpy(values.data(), raw.data(), raw.size());
      return;
    case Kind::kF64: {
      As<std::uint64_t>(type, raw);
      const std::span<const double> wide(reinterpret_cast<const double*>(raw.data()), values.size());
      return F64ToF32(wide, values);
    }
  }
}

}  // namespace so4cal
