// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/activations.h"
#include "lib/head_table.h"

namespace so4cal {

enum class RowError : std::uint8_t { kNone = 0, kNotFinite, kScaleOverflow, kInvalidCode, kInvalidScale };
const char* RowErrorText(RowError e);

// Where encoding or decoding stopped. Nothing was written when error != kNone.
struct RowStatus {
  RowError error = RowError::kNone;
  std::size_t row = 0;
  int channel = 0;
  bool ok() const { return error == RowError::kNone; }
};

// The native codec of one head of one side. Immutable after construction, safe to share between threads.
class HeadCodec {
 public:
  HeadCodec(const CodecSpec& spec, const HeadTable& table);  // throws Error when a Check() fails
  // From head table bytes (lib/head_table.h): encodes the same rows as the codec of the table behind them.
  // Throws Error on anything malformed.
  static HeadCodec FromBytes(std::span<const std::uint8_t> head_table_bytes);
  ~HeadCodec();
  HeadCodec(HeadCodec&&) noexcept;
  HeadCodec& operator=(HeadCodec&&) noexcept;

  const CodecSpec& spec() const;

  // Encodes x (raw frame) to x.num_tokens rows of spec().row_bytes() bytes each.
  RowStatus Encode(const HeadView& x, std::span<std::uint8_t> rows) const noexcept;

  // What the decoders check before they write: every code has a level, every scale is finite.
  RowStatus CheckRows(std::span<const std::uint8_t> rows) const noexcept;

  // rows -> [num_rows][head_dim] floats in the raw frame. Invalid codes and scales are refused.
  RowStatus Decode(std::span<const std::uint8_t> rows, std::span<float> x_hat) const noexcept;

  // The same without the inverse rotation and the offset: levels times scale.
  RowStatus DecodeRotated(std::span<const std::uint8_t> rows, std::span<float> z_hat) const noexcept;

  // In place on [n][head_dim]: U (x - offset) and U^T z + offset, as the encoder and the decoder compute
  // them (f32, the same bits on every SIMD target).
  void Rotate(std::span<float> x) const noexcept;
  void Unrotate(std::span<float> z) const noexcept;
  // U q: what a query needs to meet rotated keys. The missing q.offset is the same for every key, so
  // softmax does not see it.
  void RotateQuery(std::span<float> q) const noexcept;

 private:
  struct Impl;
  explicit HeadCodec(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace so4cal
