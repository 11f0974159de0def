// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <span>
#include <string>

namespace so4cal {

// How the values of a dataset are stored. HDF5 1.10 has no name for f16 and bf16, so they are told by
// their fields; its own conversion to float is two orders slower than ours and is never used.
struct ElementType {
  enum class Kind { kF16, kBf16, kF32, kF64 };
  Kind kind = Kind::kF32;
  bool big_endian = false;
  std::size_t size = 4;  // bytes
  std::string name;      // "f16", "bf16 (opaque)", "f32 (big-endian)"
};

// f16, f32, f64 and bf16: as a float type, as 2 opaque bytes (what h5py with ml_dtypes writes), or as a
// 2-byte integer with the attribute dtype = "bfloat16". Anything else throws Error; a bare uint16 too, since
// its bit patterns read as numbers would be silently wrong.
ElementType IdentifyElement(hid_t dataset, const std::string& where);

// raw.size() == values.size() * type.size; raw is aligned for its type and swapped in place when the file
// is big-endian. f64 is rounded to f32: beyond its range it becomes infinite.
void ToFloat(const ElementType& type, std::span<std::byte> raw, std::span<float> values);

}  // namespace so4cal
