// SPDX-License-Identifier: Apache-2.0
#include "formats/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "formats/byte_writer.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50, kEndMagic = 0x06054b50,
                        kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                      kLocatorBytes = 20;
constexpr std::uint16_t kVersion20 = 20, kUtf8Names = 1 << 11, kEncrypted = 1 << 0;
constexpr std::uint16_t kDate1980 = 1 << 5 | 1;  // 1 January 1980, the first date there is
constexpr std::uint16_t kPaddingId = 0x4246;     // "FB", as torch pads
constexpr std::uint16_t kZip64Id = 1;
constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kMaxBytes = 0xFFFFFFFF;  // beyond it other fields count
constexpr std::size_t kMaxComment = 0xFFFF;

std::uint32_t Crc(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

// What the local header and the central directory say alike, from "version needed" to the length of the name.
void AppendCommon(std::string& out, const ZipMember& member, std::uint16_t extra_bytes) {
  AppendLittleEndian(out, kVersion20);
  AppendLittleEndian(out, kUtf8Names);
  AppendLittleEndian(out, std::uint16_t{0});  // stored
  AppendLittleEndian(out, std::uint16_t{0});  // midnight
  AppendLittleEndian(out, kDate1980);
  AppendLittleEndian(out, Crc(member.bytes));
  AppendLittleEndian(out, static_cast<std::uint32_t>(member.bytes.size()));
  AppendLittleEndian(out, static_cast<std::uint32_t>(member.bytes.size()));
  AppendLittleEndian(out, static_cast<std::uint16_t>(member.name.size()));
  AppendLittleEndian(out, extra_bytes);
}

void AppendLocal(std::string& out, const ZipMember& member) {
  const std::size_t unpadded =
      out.size() + kLocalBytes + member.name.size() + 4;  // 4: id and length of the padding
  const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  AppendLittleEndian(out, kLocalMagic);
  AppendCommon(out, member, static_cast<std::uint16_t>(4 + padding));
  out += member.name;
  AppendLittleEndian(out, kPaddingId);
  AppendLittleEndian(out, static_cast<std::uint16_t>(padding));
  out.append(padding, 'Z');
  out += member.bytes;
}

void AppendCentral(std::string& out, const ZipMember& member, std::uint32_t local_offset) {
  AppendLittleEndian(out, kCentralMagic);
  AppendLittleEndian(out, kVersion20);
  AppendCommon(out, member, 0);
  AppendLittleEndian(out, std::uint16_t{0});  // comment
  AppendLittleEndian(out, std::uint16_t{0});  // disk
  AppendLittleEndian(out, std::uint16_t{0});  // attributes
  AppendLittleEndian(out, std::uint32_t{0});
  AppendLittleEndian(out, local_offset);
  out += member.name;
}

// Reads numbers anywhere in the archive, checked.
class Bytes {
 public:
  Bytes(std::string_view all, const std::string& where) : all_(all), where_(where) {}

  [[noreturn]] void Fail(const std::string& what) const { throw Error(where_ + ": " + what); }
  std::string_view At(std::uint64_t begin, std::uint64_t count) const {
    if (begin > all_.size() || count > all_.size() - begin) Fail("not a zip archive, or truncated");
    return all_.substr(begin, count);
  }
  template <class T>
  T Number(std::uint64_t begin) const {
    return LoadLittleEndian<T>(At(begin, sizeof(T)).data());
  }
  std::size_t size() const { return all_.size(); }

 private:
  std::string_view all_;
  const std::string& where_;
};

struct Directory {
  std::uint64_t count = 0, begin = 0, bytes = 0;
};

Directory FindDirectory(const Bytes& bytes) {
  if (bytes.size() < kEndBytes) bytes.Fail("not a zip archive: shorter than 22 bytes");
  const std::uint64_t last = bytes.size() - kEndBytes;
  std::uint64_t end = last;
  while (bytes.Number<std::uint32_t>(end) != kEndMagic) {
    if (end == 0 || last - end == kMaxComment)
      bytes.Fail("not a zip archive, or truncated: it has no directory");
    --end;
  }
  Directory directory{bytes.Number<std::uint16_t>(end + 10), bytes.Number<std::uint32_t>(end + 16),
                      bytes.Number<std::uint32_t>(end + 12)};
  if (end >= kLocatorBytes && bytes.Number<std::uint32_t>(end - kLocatorBytes) == kLocator64Magic) {
    const auto end64 = bytes.Number<std::uint64_t>(end - kLocatorBytes + 8);
    if (bytes.Number<std::uint32_t>(end64) != kEnd64Magic)
      bytes.Fail("its zip64 directory is not where it should be");
    bytes.At(end64, kEnd64Bytes);
    directory = {bytes.Number<std::uint64_t>(end64 + 32), bytes.Number<std::uint64_t>(end64 + 48),
                 bytes.Number<std::uint64_t>(end64 + 40)};
  }
  bytes.At(directory.begin, directory.bytes);
  if (directory.count > directory.bytes / kCentralBytes)
    bytes.Fail("claims more members than its directory can hold");
  return directory;
}

struct Entry {
  std::string_view name;
  std::uint64_t compressed = 0, size = 0, local = 0;
  std::uint32_t crc = 0;
};

// Sizes and offset beyond 32 bits, from the extra field of zip64, in this order and only where the fields are
// full.
void ReadZip64(const Bytes& bytes, std::uint64_t extra, std::uint64_t extra_end, Entry& entry) {
  while (extra + 4 <= extra_end) {
    const auto id = bytes.Number<std::uint16_t>(extra);
    const std::uint64_t next = extra + 4 + bytes.Number<std::uint16_t>(extra + 2);
    std::uint64_t at = extra + 4;
    for (std::uint64_t* field : {&entry.size, &entry.compressed, &entry.local})
      if (id == kZip64Id && *field == kMaxBytes && at + 8 <= std::min(next, extra_end)) {
        *field = bytes.Number<std::uint64_t>(at);
        at += 8;
      }
    extra = next;
  }
}

// One entry of the central directory; `at` moves behind it.
Entry ReadEntry(const Bytes& bytes, std::uint64_t& at) {
  if (bytes.Number<std::uint32_t>(at) != kCentralMagic) bytes.Fail("its directory is damaged");
  const auto flags = bytes.Number<std::uint16_t>(at + 8), method = bytes.Number<std::uint16_t>(at + 10);
  const std::uint64_t name_bytes = bytes.Number<std::uint16_t>(at + 28),
                      extra_bytes = bytes.Number<std::uint16_t>(at + 30),
                      comment_bytes = bytes.Number<std::uint16_t>(at + 32);
  Entry entry{bytes.At(at + kCentralBytes, name_bytes), bytes.Number<std::uint32_t>(at + 20),
              bytes.Number<std::uint32_t>(at + 24), bytes.Number<std::uint32_t>(at + 42),
              bytes.Number<std::uint32_t>(at + 16)};
  const std::uint64_t extra = at + kCentralBytes + name_bytes;
  ReadZip64(bytes, extra, extra + extra_bytes, entry);
  at = extra + extra_bytes + comment_bytes;
  const std::string who = "member '" + std::string(entry.name) + "' ";
  if (flags & kEncrypted) bytes.Fail(who + "is encrypted");
  if (method != 0 || entry.compressed != entry.size)
    bytes.Fail(who + "is compressed, expected stored members as torch.save writes them");
  return entry;
}

std::string_view MemberBytes(const Bytes& bytes, const Entry& entry) {
  const std::string who = "member '" + std::string(entry.name) + "' ";
  if (bytes.Number<std::uint32_t>(entry.local) != kLocalMagic)
    bytes.Fail(who + "is not where the directory says");
  const std::uint64_t begin = entry.local + kLocalBytes + bytes.Number<std::uint16_t>(entry.local + 26) +
                              bytes.Number<std::uint16_t>(entry.local + 28);
  const std::string_view data = bytes.At(begin, entry.size);
  if (Crc(data) != entry.crc) bytes.Fail(who + "has another CRC than the directory says: damaged");
  return data;
}

void CheckApart(const Bytes& bytes, std::vector<ZipView> members) {
  std::sort(members.begin(), members.end(),
            [](const ZipView& a, const ZipView& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < members.size(); ++i)
    if (members[i].name == members[i - 1].name)
      bytes.Fail("member '" + std::string(members[i].name) + "' comes twice");
  std::sort(members.begin(), members.end(),
            [](const ZipView& a, const ZipView& b) { return a.bytes.data() < b.bytes.data(); });
  for (std::size_t i = 1; i < members.size(); ++i)
    if (members[i].bytes.data() < members[i - 1].bytes.data() + members[i - 1].bytes.size())
      bytes.Fail("members '" + std::string(members[i - 1].name) + "' and '" + std::string(members[i].name) +
                 "' overlap");
}

}  // namespace

std::string SerializeZip(const std::vector<ZipMember>& members, const std::string& where) {
  std::string out, directory;
  for (const ZipMember& member : members) {
    if (out.size() + member.bytes.size() > kMaxBytes - 2 * kMaxComment)
      throw Error(where + ": the rotations need more than 4 GiB: export the layers in parts");
    AppendCentral(directory, member, static_cast<std::uint32_t>(out.size()));
    AppendLocal(out, member);
  }
  const auto begin = static_cast<std::uint32_t>(out.size());
  SO4CAL_CHECK(members.size() < 0xFFFF && out.size() + directory.size() < kMaxBytes);
  out += directory;
  AppendLittleEndian(out, kEndMagic);
  AppendLittleEndian(out, std::uint32_t{0});  // disks
  AppendLittleEndian(out, static_cast<std::uint16_t>(members.size()));
  AppendLittleEndian(out, static_cast<std::uint16_t>(members.size()));
  AppendLittleEndian(out, static_cast<std::uint32_t>(directory.size()));
  AppendLittleEndian(out, begin);
  AppendLittleEndian(out, std::uint16_t{0});  // comment
  return out;
}

std::vector<ZipView> ParseZip(std::string_view archive, const std::string& where) {
  const Bytes bytes(archive, where);
  const Directory directory = FindDirectory(bytes);
  std::vector<ZipView> members;
  std::uint64_t at = directory.begin;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const Entry entry = ReadEntry(bytes, at);
    members.push_back({entry.name, MemberBytes(bytes, entry)});
  }
  CheckApart(bytes, members);
  return members;
}

}  // namespace so4cal
