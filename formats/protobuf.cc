// SPDX-License-Identifier: Apache-2.0
#include "formats/protobuf.h"

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr unsigned kVarint = 0, kEightBytes = 1, kDelimited = 2, kFourBytes = 5;

void AppendVarint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

std::uint64_t TakeVarint(std::string_view& message, const std::string& where) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message.front());
    message.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  throw Error(where + ": damaged, or no ONNX file");
}

}  // namespace

void AppendProtoNumber(std::string& out, int field, std::uint64_t value) {
  AppendVarint(out, static_cast<std::uint64_t>(field) << 3 | kVarint);
  AppendVarint(out, value);
}

void AppendProtoBytes(std::string& out, int field, std::string_view bytes) {
  AppendVarint(out, static_cast<std::uint64_t>(field) << 3 | kDelimited);
  AppendVarint(out, bytes.size());
  out += bytes;
}

std::optional<ProtoField> NextProtoField(std::string_view& message, const std::string& where) {
  if (message.empty()) return {};
  const std::uint64_t tag = TakeVarint(message, where);
  ProtoField field{static_cast<int>(tag >> 3 & 0x1fffffff), 0, {}};
  std::uint64_t length = 0;
  switch (tag & 7) {
    case kVarint:
      field.number = TakeVarint(message, where);
      return field;
    case kEightBytes:
      length = 8;
      break;
    case kFourBytes:
      length = 4;
      break;
    case kDelimited:
      length = TakeVarint(message, where);
      break;
    default:
      throw Error(where + ": damaged, or no ONNX file");
  }
  if (length > message.size()) throw Error(where + ": truncated, or no ONNX file");
  if ((tag & 7) == kDelimited) field.bytes = message.substr(0, length);
  message.remove_prefix(length);
  return field;
}

}  // namespace so4cal
