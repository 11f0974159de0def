// SPDX-License-Identifier: Apache-2.0
#include "lib/so4codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <string_view>

#include "lib/attention.h"
#include "lib/error.h"
#include "lib/row_codec.h"
#include "lib/version.h"

struct so4_codec {
  so4cal::HeadCodec codec;
};

namespace {

using so4cal::RowError;
using so4cal::RowStatus;

std::size_t HeadDim(const so4_codec& c) { return static_cast<std::size_t>(c.codec.spec().head_dim); }
std::size_t RowBytes(const so4_codec& c) { return c.codec.spec().row_bytes(); }

// num * each == total, without overflow.
bool IsProduct(std::size_t total, std::size_t num, std::size_t each) {
  return total % each == 0 && total / each == num;
}

int Finish(const RowStatus& status, so4_place* where) {
  if (where != nullptr) *where = {status.row, static_cast<std::size_t>(status.channel)};
  switch (status.error) {
    case RowError::kNone:
      return SO4_OK;
    case RowError::kNotFinite:
      return SO4_ERROR_NOT_FINITE;
    case RowError::kScaleOverflow:
      return SO4_ERROR_SCALE_OVERFLOW;
    case RowError::kInvalidCode:
      return SO4_ERROR_INVALID_CODE;
    case RowError::kInvalidScale:
      return SO4_ERROR_INVALID_SCALE;
  }
  return SO4_ERROR_ARGUMENT;
}

void Explain(std::string_view reason, char* message, std::size_t message_bytes) {
  if (message == nullptr || message_bytes == 0) return;
  const std::size_t length = std::min(reason.size(), message_bytes - 1);
  std::memcpy(message, reason.data(), length);
  message[length] = 0;
}

// "1.2.3" -> 0x010203
constexpr std::uint32_t PackedVersion(std::string_view text) {
  std::uint32_t packed = 0, part = 0;
  for (const char c : text) {
    if (c == '.') {
      packed = (packed << 8) | part;
      part = 0;
    } else {
      part = 10 * part + static_cast<std::uint32_t>(c - '0');
    }
  }
  return (packed << 8) | part;
}

}  // namespace

std::uint32_t so4_version(void) { return PackedVersion(so4cal::kVersion); }

const char* so4_error_string(int status) {
  switch (status) {
    case SO4_OK:
      return "no error";
    case SO4_ERROR_ARGUMENT:
      return "an argument is null or outside its range";
    case SO4_ERROR_SIZE:
      return "a buffer has another size than the other arguments ask for";
    case SO4_ERROR_TABLE:
      return "the head table bytes are malformed or of an unknown version";
    case SO4_ERROR_MEMORY:
      return "out of memory";
    case SO4_ERROR_NOT_FINITE:
      return so4cal::RowErrorText(RowError::kNotFinite);
    case SO4_ERROR_SCALE_OVERFLOW:
      return so4cal::RowErrorText(RowError::kScaleOverflow);
    case SO4_ERROR_INVALID_CODE:
      return so4cal::RowErrorText(RowError::kInvalidCode);
    case SO4_ERROR_INVALID_SCALE:
      return so4cal::RowErrorText(RowError::kInvalidScale);
    default:
      return "unknown status";
  }
}

int so4_create(const void* table, std::size_t table_bytes, so4_codec** codec, char* message,
               std::size_t message_bytes) {
  if (codec != nullptr) *codec = nullptr;
  if (codec == nullptr || table == nullptr) {
    Explain("table or codec is null", message, message_bytes);
    return SO4_ERROR_ARGUMENT;
  }
  try {
    *codec =
        new so4_codec{so4cal::HeadCodec::FromBytes({static_cast<const std::uint8_t*>(table), table_bytes})};
    return SO4_OK;
  } catch (const so4cal::Error& e) {
    Explain(e.what(), message, message_bytes);
    return SO4_ERROR_TABLE;
  } catch (...) {
    Explain("out of memory", message, message_bytes);
    return SO4_ERROR_MEMORY;
  }
}

void so4_destroy(so4_codec* codec) { delete codec; }

std::size_t so4_head_dim(const so4_codec* codec) { return codec == nullptr ? 0 : HeadDim(*codec); }
std::size_t so4_row_bytes(const so4_codec* codec) { return codec == nullptr ? 0 : RowBytes(*codec); }

int so4_encode(const so4_codec* codec, const float* x, std::size_t num_rows, std::size_t row_stride,
               std::uint8_t* rows, std::size_t rows_bytes, so4_place* where) {
  if (codec == nullptr || (num_rows > 0 && (x == nullptr || rows == nullptr || row_stride < HeadDim(*codec))))
    return SO4_ERROR_ARGUMENT;
  if (!IsProduct(rows_bytes, num_rows, RowBytes(*codec))) return SO4_ERROR_SIZE;
  const so4cal::HeadView view{x, num_rows, row_stride, codec->codec.spec().head_dim};
  return Finish(codec->codec.Encode(view, {rows, rows_bytes}), where);
}

int so4_decode(const so4_codec* codec, const std::uint8_t* rows, std::size_t rows_bytes, float* x,
               std::size_t num_rows, so4_place* where) {
  if (codec == nullptr || (num_rows > 0 && (x == nullptr || rows == nullptr))) return SO4_ERROR_ARGUMENT;
  if (!IsProduct(rows_bytes, num_rows, RowBytes(*codec))) return SO4_ERROR_SIZE;
  return Finish(codec->codec.Decode({rows, rows_bytes}, {x, num_rows * HeadDim(*codec)}), where);
}

int so4_decode_rotated(const so4_codec* codec, const std::uint8_t* rows, std::size_t rows_bytes, float* z,
                       std::size_t num_rows, so4_place* where) {
  if (codec == nullptr || (num_rows > 0 && (z == nullptr || rows == nullptr))) return SO4_ERROR_ARGUMENT;
  if (!IsProduct(rows_bytes, num_rows, RowBytes(*codec))) return SO4_ERROR_SIZE;
  return Finish(codec->codec.DecodeRotated({rows, rows_bytes}, {z, num_rows * HeadDim(*codec)}), where);
}

int so4_attention(const so4_codec* keys, const so4_codec* values, const std::uint8_t* key_rows,
                  std::size_t key_rows_bytes, const std::uint8_t* value_rows, std::size_t value_rows_bytes,
                  std::size_t num_rows, float softmax_scale, const float* queries, std::size_t num_queries,
                  float* out, so4_place* where) {
  if (keys == nullptr || values == nullptr || key_rows == nullptr || value_rows == nullptr || num_rows == 0 ||
      !std::isfinite(softmax_scale) || (num_queries > 0 && (queries == nullptr || out == nullptr)))
    return SO4_ERROR_ARGUMENT;
  if (!IsProduct(key_rows_bytes, num_rows, RowBytes(*keys)) ||
      !IsProduct(value_rows_bytes, num_rows, RowBytes(*values)))
    return SO4_ERROR_SIZE;
  const RowStatus status = so4cal::Attention(
      keys->codec, values->codec, {key_rows, key_rows_bytes}, {value_rows, value_rows_bytes}, softmax_scale,
      {queries, num_queries * HeadDim(*keys)}, {out, num_queries * HeadDim(*values)});
  return Finish(status, where);
}
