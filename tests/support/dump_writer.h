// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "formats/dump_axes.h"
#include "formats/hdf5_handle.h"
#include "lib/activations.h"
#include "lib/convert.h"

namespace so4cal::testing {

// How a dataset of a test dump is stored.
enum class Stored { kF16, kBf16Float, kBf16Opaque, kBf16Uint16, kF32, kF64, kF16Big, kF32Big, kF64Big };
inline constexpr Stored kStoredTypes[] = {Stored::kF16,        Stored::kBf16Float, Stored::kBf16Opaque,
                                          Stored::kBf16Uint16, Stored::kF32,       Stored::kF64,
                                          Stored::kF16Big,     Stored::kF32Big,    Stored::kF64Big};
struct Storage {
  Stored type = Stored::kF16;
  std::vector<hsize_t> chunks;  // empty: contiguous; cut to the extents
  bool gzip = false;            // with shuffle
};

// Values that f16, bf16, f32 and f64 all hold exactly, different from token to token: multiples of 1/16
// below 8.
inline Activations ExactActivations(int num_heads, std::size_t num_tokens, int channels, unsigned seed) {
  Activations a{num_heads, num_tokens, channels, {}};
  a.values.resize(static_cast<std::size_t>(num_heads) * num_tokens * static_cast<std::size_t>(channels));
  std::uint32_t state = seed * 2654435761u + 1;
  for (float& x : a.values) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(static_cast<int>(state >> 24) % 255 - 127) / 16;
  }
  return a;
}

// Writes small dumps, right or wrong, for tests. Parent groups are made as needed.
class DumpWriter {
 public:
  explicit DumpWriter(const std::filesystem::path& path)
      : file_(H5Check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "create"), H5Fclose) {
    Text("/", "rope", "post");
  }

  void Text(const std::string& object_path, const char* name, const std::string& value) {
    const Hid type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Check(H5Tset_size(type.get(), std::max<std::size_t>(value.size(), 1)), "size");
    Attribute(object_path, name, type.get(), type.get(), 1, value.c_str());
  }
  void Numbers(const std::string& object_path, const char* name, const std::vector<double>& values) {
    Attribute(object_path, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.size(), values.data());
  }
  void Integers(const std::string& path, const std::vector<std::int64_t>& values) {
    Dataset(path, H5T_STD_I64LE, {values.size()}, {}, std::as_bytes(std::span(values)));
  }

  // Any array, in file order.
  void Array(const std::string& path, const std::vector<hsize_t>& extents, std::span<const float> values,
             const Storage& storage = {}) {
    const Hid type = FileType(storage.type);
    Dataset(path, type.get(), extents, storage, Encode(storage.type, values));
    if (storage.type == Stored::kBf16Uint16) Text(path, "dtype", "bfloat16");
  }

  // Rows of one layer, or of all in one dataset if the axes begin with layer; states the axes at the dataset
  // unless state_axes is false.
  void Rows(const std::string& path, const std::vector<Activations>& layers, const std::string& axes_text,
            const Storage& storage = {}, hsize_t batches = 1, bool state_axes = true) {
    const Axes axes = ParseAxes(axes_text, "test");
    const Activations& first = layers.front();
    const hsize_t by_axis[] = {layers.size(), batches, first.num_tokens / batches,
                               static_cast<hsize_t>(first.num_heads), static_cast<hsize_t>(first.channels)};
    std::vector<hsize_t> extents;
    for (const Axis axis : axes) extents.push_back(by_axis[static_cast<int>(axis)]);
    std::vector<float> values(
        std::accumulate(extents.begin(), extents.end(), hsize_t{1}, std::multiplies<>()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      hsize_t at[5] = {};  // by axis
      std::size_t rest = i;
      for (std::size_t d = axes.size(); d-- > 0; rest /= extents[d])
        at[static_cast<int>(axes[d])] = rest % extents[d];
      values[i] = layers[at[0]].head(static_cast<int>(at[3])).row(at[1] * by_axis[2] + at[2])[at[4]];
    }
    Array(path, extents, values, storage);
    if (state_axes) Text(path, "axes", axes_text);
  }

 private:
  static Hid FileType(Stored stored) {
    switch (stored) {
      case Stored::kF16:
        return HalfType(10, 5, 15);
      case Stored::kBf16Float:
        return HalfType(7, 8, 127);
      case Stored::kBf16Opaque:
        return Hid(H5Tcreate(H5T_OPAQUE, 2), H5Tclose);
      case Stored::kBf16Uint16:
        return Hid(H5Tcopy(H5T_STD_U16LE), H5Tclose);
      case Stored::kF32:
        return Hid(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
      case Stored::kF64:
        return Hid(H5Tcopy(H5T_IEEE_F64LE), H5Tclose);
      case Stored::kF32Big:
        return Hid(H5Tcopy(H5T_IEEE_F32BE), H5Tclose);
      case Stored::kF64Big:
        return Hid(H5Tcopy(H5T_IEEE_F64BE), H5Tclose);
      case Stored::kF16Big:
        break;
    }
    Hid type = HalfType(10, 5, 15);
    H5Check(H5Tset_order(type.get(), H5T_ORDER_BE), "order");
    return type;
  }

  static Hid HalfType(std::size_t mantissa_bits, std::size_t exponent_bits, std::size_t bias) {
    Hid type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    H5Check(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits), "fields");
    H5Check(H5Tset_size(type.get(), 2), "size");
    H5Check(H5Tset_ebias(type.get(), bias), "bias");
    return type;
  }

  static std::vector<std::byte> Encode(Stored stored, std::span<const float> values) {
    if (stored == Stored::kF32 || stored == Stored::kF32Big)
      return Bytes(std::vector<float>(values.begin(), values.end()), stored == Stored::kF32Big);
    if (stored == Stored::kF64 || stored == Stored::kF64Big)
      return Bytes(std::vector<double>(values.begin(), values.end()), stored == Stored::kF64Big);
    std::vector<std::uint16_t> half(values.size());
    const bool f16 = stored == Stored::kF16 || stored == Stored::kF16Big;
    (f16 ? F32ToF16 : F32ToBf16)(values, half);
    return Bytes(half, stored == Stored::kF16Big);
  }

  template <typename T>
  static std::vector<std::byte> Bytes(const std::vector<T>& values, bool big_endian) {
    const auto view = std::as_bytes(std::span(values));
    std::vector<std::byte> bytes(view.begin(), view.end());
    for (std::size_t i = 0; big_endian && i < bytes.size(); i += sizeof(T))
      std::reverse(bytes.data() + i, bytes.data() + i + sizeof(T));
    return bytes;
  }

  void Dataset(const std::string& path, hid_t type, const std::vector<hsize_t>& extents,
               const Storage& storage, std::span<const std::byte> bytes) {
    const Hid links(H5Pcreate(H5P_LINK_CREATE), H5Pclose), creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Check(H5Pset_create_intermediate_group(links.get(), 1), "groups");
    std::vector<hsize_t> chunks = storage.chunks;
    for (std::size_t d = 0; d < chunks.size(); ++d) chunks[d] = std::min(chunks[d], extents[d]);
    if (!chunks.empty())
      H5Check(H5Pset_chunk(creation.get(), static_cast<int>(chunks.size()), chunks.data()), "chunks");
    if (storage.gzip) {
      H5Check(H5Pset_shuffle(creation.get()), "shuffle");
      H5Check(H5Pset_deflate(creation.get(), 4), "deflate");
    }
    const Hid space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose);
    const Hid dataset(H5Check(H5Dcreate2(file_.get(), path.c_str(), type, space.get(), links.get(),
                                         creation.get(), H5P_DEFAULT),
                              path),
                      H5Dclose);
    if (!bytes.empty())
      H5Check(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), path);
  }

  void Attribute(const std::string& object_path, const char* name, hid_t file_type, hid_t memory_type,
                 hsize_t count, const void* data) {
    const Hid object(H5Check(H5Oopen(file_.get(), object_path.c_str(), H5P_DEFAULT), object_path), H5Oclose);
    const Hid space(count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr), H5Sclose);
    if (H5Aexists(object.get(), name) > 0) H5Adelete(object.get(), name);
    const Hid attribute(
        H5Check(H5Acreate2(object.get(), name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), name),
        H5Aclose);
    H5Check(H5Awrite(attribute.get(), memory_type, data), name);
  }

  Hid file_;
};

}  // namespace so4cal::testing
