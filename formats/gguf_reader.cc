// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_reader.h"

namespace so4cal {
namespace {

constexpr int kMaxArrayDepth = 4;
// A header beyond this is no model's: the longest known ones, of large vocabularies, have some 20 MB.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 30;

// Bytes of a value type, 0 for text, array and unknown ones. docs/gguf.md, gguf_metadata_value_type.
std::uint64_t SizeOf(std::uint32_t type) {
  constexpr std::uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

// An integer from 0; false for other values, which are read all the same.
bool ReadUnsigned(GgufReader& reader, std::uint32_t type, std::uint64_t& value) {
  const auto check = [&](auto number) {
    value = static_cast<std::uint64_t>(number);
    return number >= 0;
  };
  switch (type) {
    case 0:
      return check(reader.Number<std::uint8_t>());
    case 1:
      return check(reader.Number<std::int8_t>());
    case 2:
      return check(reader.Number<std::uint16_t>());
    case 3:
      return check(reader.Number<std::int16_t>());
    case kGgufUint32:
      return check(reader.Number<std::uint32_t>());
    case 5:
      return check(reader.Number<std::int32_t>());
    case 10:
      return check(reader.Number<std::uint64_t>());
    case 11:
      return check(reader.Number<std::int64_t>());
    default:
      reader.Skip(SizeOf(type));
      return false;
  }
}

void SkipArray(GgufReader& reader, int depth) {
  const auto type = reader.Number<std::uint32_t>();
  const auto count = reader.Number<std::uint64_t>();
  if (depth > kMaxArrayDepth) throw reader.Failure("arrays inside arrays, deeper than any model has");
  const std::uint64_t least = type == kGgufText ? 8 : type == kGgufArray ? 12 : SizeOf(type);
  if (least == 0) throw reader.Failure("unknown type " + std::to_string(type) + " of an array's values");
  if (count > reader.remaining() / least)
    throw reader.Failure("an array claims " + std::to_string(count) + " values, more than the file can hold");
  if (type == kGgufText)
    for (std::uint64_t i = 0; i < count; ++i) reader.Skip(reader.Number<std::uint64_t>());
  else if (type == kGgufArray)
    for (std::uint64_t i = 0; i < count; ++i) SkipArray(reader, depth + 1);
  else
    reader.Skip(count * least);
}

}  // namespace

GgufReader::GgufReader(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error("can't read '" + path.string() + "' (" +
                (error ? error.message() : "expected a regular file") + ")");
  if (!file_) throw Error("can't read '" + path.string() + "' (permission denied?)");
  size_ = std::filesystem::file_size(path);
}

Error GgufReader::Failure(const std::string& what) const {
  return Error("'" + path_.string() + "' at byte " + std::to_string(position_) + ": " + what);
}

void GgufReader::CheckRemaining(std::uint64_t count) const {
  if (count > remaining())
    throw Failure("needs " + std::to_string(count) + " more bytes, the file has " +
                  std::to_string(remaining()) + ": truncated or no GGUF file");
  if (position_ + count > kMaxHeaderBytes) throw Failure("the header is beyond 1 GiB, which no model has");
}

std::string GgufReader::Bytes(std::uint64_t count) {
  CheckRemaining(count);
  std::string bytes(count, '\0');
  if (!file_.read(bytes.data(), static_cast<std::streamsize>(count))) throw Failure("can't be read");
  position_ += count;
  return bytes;
}

void GgufReader::Skip(std::uint64_t count) {
  CheckRemaining(count);
  if (!file_.ignore(static_cast<std::streamsize>(count))) throw Failure("can't be read");
  position_ += count;
}

std::string GgufReader::BytesAt(std::uint64_t begin, std::uint64_t count) {
  const std::uint64_t here = position_;
  file_.seekg(static_cast<std::streamoff>(begin));
  position_ = begin;
  std::string bytes = Bytes(count);
  file_.seekg(static_cast<std::streamoff>(here));
  position_ = here;
  return bytes;
}

void ReadGgufKey(GgufReader& reader, GgufHeader& header) {
  const std::string key = reader.Text();
  const auto type = reader.Number<std::uint32_t>();
  std::uint64_t number = 0;
  if (type == kGgufText)
    header.texts[key] = reader.Text();
  else if (type == kGgufArray)
    SkipArray(reader, 1);
  else if (SizeOf(type) == 0)
    throw reader.Failure("key '" + key + "' has the unknown value type " + std::to_string(type));
  else if (ReadUnsigned(reader, type, number))
    header.numbers[key] = number;
}

}  // namespace so4cal
