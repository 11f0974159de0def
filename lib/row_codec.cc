// SPDX-License-Identifier: Apache-2.0
#include "lib/row_codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "lib/decode_rows.h"
#include "lib/encode_rows.h"
#include "lib/error.h"
#include "lib/feedback_rounding.h"
#include "lib/half.h"
#include "lib/head_bytes.h"
#include "lib/pack.h"
#include "lib/quantize_block.h"
#include "lib/rotate_rows.h"
#include "lib/row_magnitude.h"

namespace so4cal {
namespace {

constexpr std::size_t kMaxHeadDim = 1024;
constexpr std::size_t kTileFloats = 4096;  // rows rotated at a time, on the stack
constexpr std::size_t kBatch = 32;         // rows that the encoder takes at once on wide vectors

using RowFloats = std::array<float, kMaxHeadDim>;
using RowCodes = std::array<std::uint8_t, kMaxHeadDim>;

}  // namespace

struct HeadCodec::Impl {
  CodecSpec spec;
  const Grid* grid;
  RotationF32 rotation;
  // No channel of x - offset above this: no scale can overflow, whatever the rotation. |z| <= sqrt(head_dim)
  // |x - offset|, and a least-squares scale stays below 4 times the absmax scale.
  float safe_magnitude;
  std::optional<RoundingMetric> metric;  // unless nearest

  Impl(const CodecSpec& codec_spec, const HeadTable& table, RotationF32 map);

  std::size_t head_dim() const { return static_cast<std::size_t>(spec.head_dim); }
  std::size_t block() const { return static_cast<std::size_t>(spec.block); }
  std::size_t num_blocks() const { return static_cast<std::size_t>(spec.num_blocks()); }

  RowStatus FindUnencodable(const HeadView& x) const noexcept;
  RowStatus CheckScales(std::span<const float> x_row, std::size_t row) const noexcept;
  RowStatus CheckRow(std::span<const std::uint8_t> row, std::size_t index) const noexcept;
};

namespace {

void CheckFit(const CodecSpec& spec, const HeadTable& table) {
  spec.Check();
  table.Check();
  if (table.transform.head_dim != spec.head_dim)
    throw Error("the head's table has head_dim " + std::to_string(table.transform.head_dim) +
                ", expected the codec's " + std::to_string(spec.head_dim));
}

}  // namespace

HeadCodec::Impl::Impl(const CodecSpec& codec_spec, const HeadTable& table, RotationF32 map)
    : spec(codec_spec),
      grid(&GridFor(spec.grid, spec.bits)),
      rotation(std::move(map)),
      safe_magnitude(kLargestHalf * grid->top / (4 * std::sqrt(static_cast<float>(spec.head_dim)))) {
  if (table.rounding == Rounding::kNearest) return;
  metric = MakeRoundingMetric(
      spec,
      RotatedMetric(DenseMatrix(rotation), table.metric, static_cast<double>(table.damping), head_dim()),
      table.rounds);
}

HeadCodec::HeadCodec(const CodecSpec& spec, const HeadTable& table) {
  CheckFit(spec, table);
  impl_.reset(new Impl(spec, table, MakeRotationF32(table.Effective())));
}

HeadCodec::HeadCodec(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}

HeadCodec HeadCodec::FromBytes(std::span<const std::uint8_t> head_table_bytes) {
  HeadFromBytes head = ReadHeadBytes(head_table_bytes);
  CheckFit(head.spec, head.table);
  if (head.table.chosen == Chosen::kIdentity) head.rotation = MakeRotationF32(head.table.Effective());
  return HeadCodec(std::unique_ptr<const Impl>(new Impl(head.spec, head.table, std::move(head.rotation))));
}

HeadCodec::~HeadCodec() = default;
HeadCodec::HeadCodec(HeadCodec&&) noexcept = default;
HeadCodec& HeadCodec::operator=(HeadCodec&&) noexcept = default;

const CodecSpec& HeadCodec::spec() const { return impl_->spec; }

// --- Encoding.

RowStatus HeadCodec::Impl::CheckScales(std::span<const float> x_row, std::size_t row) const noexcept {
  RowFloats storage;
  const std::span<float> z = std::span(storage).first(head_dim());
  std::copy(x_row.begin(), x_row.end(), z.begin());
  SubtractOffset(rotation, z);
  RotateRows(rotation, z);
  for (std::size_t b = 0; b < num_blocks(); ++b) {
    const auto block_z = z.subspan(b * block(), block());
    bool finite = true;
    for (const float v : block_z) finite = finite && std::isfinite(v);
    if (!finite || ChooseScale(*grid, spec.scale, block_z).overflow)
      return {RowError::kScaleOverflow, row, static_cast<int>(b * block())};
  }
  return {};
}

// A pass ahead of encoding, so that an error leaves the output as it was.
RowStatus HeadCodec::Impl::FindUnencodable(const HeadView& x) const noexcept {
  for (std::size_t t = 0; t < x.num_tokens; ++t) {
    const auto row = x.row(t);
    if (RowMagnitude(row, rotation.offset) <= safe_magnitude) continue;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (!std::isfinite(row[i])) return {RowError::kNotFinite, t, static_cast<int>(i)};
    if (const RowStatus status = CheckScales(row, t); !status.ok()) return status;
  }
  return {};
}

RowStatus HeadCodec::Encode(const HeadView& x, std::span<std::uint8_t> rows) const noexcept {
  const std::size_t n = impl_->head_dim(), row_bytes = impl_->spec.row_bytes();
  SO4CAL_CHECK(static_cast<std::size_t>(x.channels) == n && rows.size() == x.num_tokens * row_bytes);
  if (const RowStatus status = impl_->FindUnencodable(x); !status.ok()) return status;
  const RoundingMetric* metric = impl_->metric.has_value() ? &*impl_->metric : nullptr;
  std::array<float, kTileFloats> tile;
  const std::size_t tile_rows =
      kTileFloats / n < kBatch ? kTileFloats / n : kTileFloats / n / kBatch * kBatch;
  for (std::size_t first = 0; first < x.num_tokens; first += tile_rows) {
    const std::size_t count = std::min(tile_rows, x.num_tokens - first);
    const std::span<float> z = std::span(tile).first(count * n);
    for (std::size_t t = 0; t < count; ++t)
      std::copy_n(x.row(first + t).begin(), n, z.begin() + static_cast<std::ptrdiff_t>(t * n));
    SubtractOffset(impl_->rotation, z);
    RotateRows(impl_->rotation, z);
    EncodeRotatedRows(impl_->spec, metric, z, rows.subspan(first * row_bytes, count * row_bytes));
  }
  return {};
}

// --- Decoding.

RowStatus HeadCodec::Impl::CheckRow(std::span<const std::uint8_t> row, std::size_t index) const noexcept {
  for (std::size_t b = 0; b < num_blocks(); ++b)
    if ((row[2 * b + 1] & 0x7c) == 0x7c)  // the exponent of fp16's infinity and NaN
      return {RowError::kInvalidScale, index, static_cast<int>(b * block())};
  if (grid->levels.size() == std::size_t{1} << spec.bits) return {};
  RowCodes codes;
  UnpackCodes(spec, row, std::span(codes).first(head_dim()));
  for (std::size_t i = 0; i < head_dim(); ++i)
    if (codes[i] >= grid->levels.size()) return {RowError::kInvalidCode, index, static_cast<int>(i)};
  return {};
}

RowStatus HeadCodec::CheckRows(std::span<const std::uint8_t> rows) const noexcept {
  const std::size_t row_bytes = impl_->spec.row_bytes();
  SO4CAL_CHECK(rows.size() % row_bytes == 0);
  for (std::size_t r = 0; r < rows.size() / row_bytes; ++r)
    if (const RowStatus status = impl_->CheckRow(rows.subspan(r * row_bytes, row_bytes), r); !status.ok())
      return status;
  return {};
}

RowStatus HeadCodec::DecodeRotated(std::span<const std::uint8_t> rows,
                                   std::span<float> z_hat) const noexcept {
  const std::size_t n = impl_->head_dim(), row_bytes = impl_->spec.row_bytes();
  SO4CAL_CHECK(rows.size() % row_bytes == 0 && z_hat.size() == rows.size() / row_bytes * n);
  if (const RowStatus status = CheckRows(rows); !status.ok()) return status;
  DecodeRotatedRows(impl_->spec, rows, z_hat);
  return {};
}

RowStatus HeadCodec::Decode(std::span<const std::uint8_t> rows, std::span<float> x_hat) const noexcept {
  const RowStatus status = DecodeRotated(rows, x_hat);
  if (status.ok()) Unrotate(x_hat);
  return status;
}

// --- The map alone.

void HeadCodec::Rotate(std::span<float> x) const noexcept {
  SubtractOffset(impl_->rotation, x);
  RotateRows(impl_->rotation, x);
}
void HeadCodec::Unrotate(std::span<float> z) const noexcept {
  UnrotateRows(impl_->rotation, z);
  AddOffset(impl_->rotation, z);
}
void HeadCodec::RotateQuery(std::span<float> q) const noexcept { RotateRows(impl_->rotation, q); }

const char* RowErrorText(RowError e) {
  switch (e) {
    case RowError::kNone:
      return "no error";
    case RowError::kNotFinite:
      return "a value is NaN or infinite, expected finite numbers";
    case RowError::kScaleOverflow:
      return "a block needs a scale above 65504, the largest fp16 number";
    case RowError::kInvalidCode:
      return "a code has no level in this grid: the rows are damaged or of another grid";
    case RowError::kInvalidScale:
      return "a scale is NaN or infinite: the rows are damaged";
  }
  return "unknown error";
}

}  // namespace so4cal
