// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace so4cal {

// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding), as far as ONNX needs it:
// numbers and length-delimited fields.
void AppendProtoNumber(std::string& out, int field, std::uint64_t value);
void AppendProtoBytes(std::string& out, int field, std::string_view bytes);

struct ProtoField {
  int field = 0;
  std::uint64_t number = 0;  // of a varint
  std::string_view bytes;    // of a length-delimited field
};

// Takes the first field off `message`; nothing when it is empty. Fields of 4 and 8 bytes have neither number
// nor bytes. Throws Error that starts with `where` on a message that does not fit.
std::optional<ProtoField> NextProtoField(std::string_view& message, const std::string& where);

}  // namespace so4cal
