// SPDX-License-Identifier: Apache-2.0
#include "lib/head_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'S', 'O', '4', 'H', 'E', 'A', 'D', 0};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 36, kChecksumBytes = 4;
constexpr double kRotationTolerance = 1e-5;  // of a stored block against the nearest rotation

enum Flag : std::uint8_t { kHadamard = 1, kSigns = 2, kOffset = 4, kDense = 8, kMetric = 16, kAllFlags = 31 };

// CRC-32 (polynomial 0x04C11DB7, reflected, as in zip and PNG).
std::uint32_t Crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

class Writer {
 public:
  std::vector<std::uint8_t> bytes;

  void U8(std::size_t v) { bytes.push_back(static_cast<std::uint8_t>(v)); }
  void U32(std::uint32_t v) {
    for (int shift = 0; shift < 32; shift += 8) U8((v >> shift) & 0xff);
  }
  void F32(float v) { U32(std::bit_cast<std::uint32_t>(v)); }
  void F32s(std::span<const float> values) {
    for (const float v : values) F32(v);
  }
};

// Sizes have been checked before: reading past the end is a bug.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t U8() {
    SO4CAL_CHECK(at_ < bytes_.size());
    return bytes_[at_++];
  }
  std::uint32_t U32() {
    std::uint32_t v = 0;
    for (int shift = 0; shift < 32; shift += 8) v |= std::uint32_t{U8()} << shift;
    return v;
  }
  float F32() { return std::bit_cast<float>(U32()); }
  std::vector<float> F32s(std::size_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = F32();
    return values;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

[[noreturn]] void Refuse(const std::string& reason) { throw Error("head table bytes: " + reason); }

void CheckFrame(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes ||
      !std::equal(kMagic.begin(), kMagic.end(), bytes.begin()))
    Refuse("do not start with SO4HEAD, this is another kind of data or damaged");
  Reader r(bytes.subspan(kMagic.size()));
  if (const std::uint32_t version = r.U32(); version != kVersion)
    Refuse("version is " + std::to_string(version) + ", expected 1: update the reader");
  if (const std::uint32_t total = r.U32(); total != bytes.size())
    Refuse("length is " + std::to_string(bytes.size()) + ", expected " + std::to_string(total) +
           ": truncated or damaged");
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  if (Reader(bytes.last(kChecksumBytes)).U32() != Crc32(body)) Refuse("the checksum does not match: damaged");
}

std::size_t ExpectedBytes(std::size_t d, std::size_t num_stages, std::uint8_t flags) {
  std::size_t bytes = kHeaderBytes + kChecksumBytes + num_stages * (4 + 16 * d);
  if ((flags & kSigns) != 0) bytes += d;
  if ((flags & kOffset) != 0) bytes += 4 * d;
  if ((flags & kDense) != 0) bytes += 4 * d * d;
  if ((flags & kMetric) != 0) bytes += 4 * d * d;
  return bytes;
}

// Blocks as 4 x 4 floats into both forms.
void ReadStage(Reader& r, int stride, std::size_t index, HeadFromBytes& head) {
  const auto num_blocks = static_cast<std::size_t>(head.spec.head_dim) / 4;
  const std::vector<float> blocks = r.F32s(16 * num_blocks);
  Stage stage;
  stage.stride = stride;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    Matrix4 m;
    std::copy_n(blocks.begin() + static_cast<std::ptrdiff_t>(16 * i), 16, m.begin());
    const So4 nearest = NearestRotation(m);
    const Matrix4 exact = ToMatrix(nearest);
    for (std::size_t e = 0; e < 16; ++e)
      if (!(std::abs(m[e] - exact[e]) <= kRotationTolerance))
        Refuse("stage " + std::to_string(index) + ", block " + std::to_string(i) +
               " is not a rotation, expected one within 1e-5");
    stage.blocks.push_back(nearest);
  }
  head.table.transform.stages.push_back(std::move(stage));
  head.rotation.AddStage(StageFromBlocks(stride, blocks));
}

void ReadBody(Reader& r, std::uint8_t flags, std::size_t num_stages, HeadFromBytes& head) {
  const auto d = static_cast<std::size_t>(head.spec.head_dim);
  HeadTransform& t = head.table.transform;
  std::vector<int> strides;
  for (std::size_t i = 0; i < num_stages; ++i) {
    const std::uint32_t stride = r.U32();
    if (stride == 0 || stride > d / 4 || d % (4 * stride) != 0)
      Refuse("stride of stage " + std::to_string(i) + " is " + std::to_string(stride) +
             ", expected 4 * stride to divide head_dim (" + std::to_string(d) + ")");
    strides.push_back(static_cast<int>(stride));
  }
  if ((flags & kSigns) != 0)
    for (std::size_t i = 0; i < d; ++i) t.signs.push_back(static_cast<std::int8_t>(r.U8()));
  if ((flags & kOffset) != 0) t.offset = r.F32s(d);
  head.rotation = MakeRotationF32(t);
  for (std::size_t i = 0; i < num_stages; ++i) ReadStage(r, strides[i], i, head);
  if ((flags & kDense) != 0) {
    head.rotation.dense = r.F32s(d * d);
    t.dense.assign(head.rotation.dense.begin(), head.rotation.dense.end());
  }
  if ((flags & kMetric) != 0) head.table.metric = r.F32s(d * d);
}

std::uint8_t FlagsOf(const HeadTable& table) {
  const HeadTransform& t = table.transform;
  return static_cast<std::uint8_t>((t.hadamard ? kHadamard : 0) | (t.signs.empty() ? 0 : kSigns) |
                                   (t.offset.empty() ? 0 : kOffset) | (t.dense.empty() ? 0 : kDense) |
                                   (table.metric.empty() ? 0 : kMetric));
}

}  // namespace

HeadFromBytes ReadHeadBytes(std::span<const std::uint8_t> bytes) {
  CheckFrame(bytes);
  HeadFromBytes head;
  Reader r(bytes.subspan(16));
  const std::uint32_t head_dim = r.U32(), block = r.U32();
  head.spec.head_dim = static_cast<int>(std::min(head_dim, 1u << 20));  // Check() refuses what is too large
  head.spec.block = static_cast<int>(std::min(block, 1u << 20));
  head.spec.bits = r.U8();
  head.spec.grid = static_cast<GridKind>(r.U8());
  head.spec.scale = static_cast<ScaleRule>(r.U8());
  head.table.rounding = static_cast<Rounding>(r.U8());
  head.table.chosen = static_cast<Chosen>(r.U8());
  const std::uint8_t flags = r.U8();
  head.table.rounds = r.U8();
  const std::size_t num_stages = r.U8();
  head.table.damping = r.F32();
  try {
    head.spec.Check();
    if ((flags & ~kAllFlags) != 0)
      throw Error("flags are " + std::to_string(flags) + ", expected at most 31");
    const std::size_t expected = ExpectedBytes(head_dim, num_stages, flags);
    if (bytes.size() != expected)
      throw Error("length is " + std::to_string(bytes.size()) + ", expected " + std::to_string(expected) +
                  " for its sizes");
    head.table.transform.head_dim = head.spec.head_dim;
    head.table.transform.hadamard = (flags & kHadamard) != 0;
    ReadBody(r, flags, num_stages, head);
    head.table.Check();
  } catch (const Error& e) {
    Refuse(e.what());
  }
  return head;
}

std::vector<std::uint8_t> SerializeHeadTable(const CodecSpec& spec, const HeadTable& table) {
  spec.Check();
  table.Check();
  const HeadTransform& t = table.transform;
  if (t.head_dim != spec.head_dim)
    throw Error("the head's table has head_dim " + std::to_string(t.head_dim) + ", expected the codec's " +
                std::to_string(spec.head_dim));
  if (t.stages.size() > 255)
    throw Error("the head has " + std::to_string(t.stages.size()) + " stages, expected at most 255");
  const std::uint8_t flags = FlagsOf(table);
  const RotationF32 rotation = MakeRotationF32(t);
  Writer w;
  for (const std::uint8_t c : kMagic) w.U8(c);
  w.U32(kVersion);
  w.U32(static_cast<std::uint32_t>(
      ExpectedBytes(static_cast<std::size_t>(spec.head_dim), t.stages.size(), flags)));
  w.U32(static_cast<std::uint32_t>(spec.head_dim));
  w.U32(static_cast<std::uint32_t>(spec.block));
  for (const std::size_t v : {static_cast<std::size_t>(spec.bits), static_cast<std::size_t>(spec.grid),
                              static_cast<std::size_t>(spec.scale), static_cast<std::size_t>(table.rounding),
                              static_cast<std::size_t>(table.chosen), std::size_t{flags},
                              static_cast<std::size_t>(table.rounds), t.stages.size()})
    w.U8(v);
  w.F32(table.damping);
  for (const Stage& stage : t.stages) w.U32(static_cast<std::uint32_t>(stage.stride));
  for (const std::int8_t sign : t.signs) w.U8(static_cast<std::uint8_t>(sign));
  w.F32s(t.offset);
  for (const BlockStage& stage : rotation.forward) w.F32s(BlocksFromStage(stage));
  w.F32s(rotation.dense);
  w.F32s(table.metric);
  w.U32(Crc32(w.bytes));
  return w.bytes;
}

ParsedHeadTable ParseHeadTable(std::span<const std::uint8_t> bytes) {
  HeadFromBytes head = ReadHeadBytes(bytes);
  return {head.spec, std::move(head.table)};
}

}  // namespace so4cal
