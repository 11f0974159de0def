// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "lib/rotation_table.h"

namespace so4cal {

// The layers that a fit has finished while others are still to do: the folder OUT.partial with one native
// table per layer, FORMATS.md "A fit that is not finished". One file per layer, because a table of 80 layers
// with metrics is 100 MB, and would be written 80 times.
class PartialTable {
 public:
  // Makes the folder for the table `out`, or takes over the one that an ended process left. Throws Error when
  // a running process has it, or when it holds something else.
  explicit PartialTable(const std::filesystem::path& out);
  ~PartialTable();  // removes the folder when it holds no layer
  PartialTable(const PartialTable&) = delete;
  PartialTable& operator=(const PartialTable&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // False where the file system has no locks: nothing keeps a second process out then.
  bool locked() const { return locked_; }

  std::vector<int> Layers() const;  // that the folder holds, ascending
  // The same, read: each a whole table with one layer. Throws Error.
  std::vector<RotationTable> ReadLayers() const;
  // A table with one layer; on the disk when this returns. Throws Error.
  void Add(const RotationTable& layer);
  // Once the whole table is written.
  void Remove();

 private:
  void Lock();
  bool IsCurrent() const;
  void CheckEntries() const;
  void RemoveTemporaries() const;

  std::filesystem::path folder_;
  int lock_ = -1;
  bool locked_ = false;
  bool keep_ = false;  // layers are in it
};

}  // namespace so4cal
