// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace so4cal {

// Little-endian bytes whatever the host is: the low byte of the value first.
template <class T>
requires std::integral<T> || std::floating_point<T>
void AppendLittleEndian(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(std::endian::native == std::endian::little ? bytes[i] : bytes[sizeof(T) - 1 - i]);
}

template <class T>
void AppendLittleEndian(std::string& out, std::span<const T> values) {
  out.reserve(out.size() + values.size_bytes());
  for (const T value : values) AppendLittleEndian(out, value);
}

// `bytes` holds at least sizeof(T) bytes.
template <class T>
T LoadLittleEndian(const char* bytes) {
  char native[sizeof(T)];
  for (std::size_t i = 0; i < sizeof(T); ++i)
    native[i] = std::endian::native == std::endian::little ? bytes[i] : bytes[sizeof(T) - 1 - i];
  T value;
  std::memcpy(&value, native, sizeof(T));
  return value;
}

}  // namespace so4cal
