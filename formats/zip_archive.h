// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// ZIP archives of stored (not compressed) members, as torch.save writes them (PKWARE APPNOTE 6.3).
struct ZipMember {
  std::string name;
  std::string bytes;
};

// Every member's bytes start at a multiple of 64 bytes, as torch's own writer aligns them. The same members
// give the same bytes: no times. Throws Error that starts with `where` from 4 GiB on.
std::string SerializeZip(const std::vector<ZipMember>& members, const std::string& where);

struct ZipView {
  std::string_view name;
  std::string_view bytes;
};

// The members of an archive, as views of `archive`; zip64 too. Strict: throws Error that starts with `where`
// on compressed or encrypted members, lengths that do not fit, members that overlap, a name twice, a wrong
// CRC.
std::vector<ZipView> ParseZip(std::string_view archive, const std::string& where);

}  // namespace so4cal
