// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <vector>

namespace so4cal {

// How the values of an array field are stored (always little-endian) and held in memory.
inline hid_t StoredType(const std::vector<std::uint8_t>&) { return H5T_STD_U8LE; }
inline hid_t StoredType(const std::vector<std::int8_t>&) { return H5T_STD_I8LE; }
inline hid_t StoredType(const std::vector<std::uint64_t>&) { return H5T_STD_U64LE; }
inline hid_t StoredType(const std::vector<float>&) { return H5T_IEEE_F32LE; }
inline hid_t StoredType(const std::vector<double>&) { return H5T_IEEE_F64LE; }
inline hid_t MemoryType(const std::vector<std::uint8_t>&) { return H5T_NATIVE_UINT8; }
inline hid_t MemoryType(const std::vector<std::int8_t>&) { return H5T_NATIVE_INT8; }
inline hid_t MemoryType(const std::vector<std::uint64_t>&) { return H5T_NATIVE_UINT64; }
inline hid_t MemoryType(const std::vector<float>&) { return H5T_NATIVE_FLOAT; }
inline hid_t MemoryType(const std::vector<double>&) { return H5T_NATIVE_DOUBLE; }

// Attributes of a dataset that name its columns, or its codes.
inline constexpr char kColumnsAttribute[] = "columns";
inline constexpr char kCodesAttribute[] = "codes";

}  // namespace so4cal
