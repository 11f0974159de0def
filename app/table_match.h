// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "formats/kv_dump.h"
#include "lib/rotation_table.h"

namespace so4cal {

// Throws Error when the dump lacks a layer of the table, or has other heads or another head_dim there.
void CheckTableFitsDump(const RotationTable& table, const KvDump& dump);

struct LayerHashes {
  int layer = 0;
  std::vector<std::map<std::string, std::string>> per_file;  // dataset -> content hash
};
// Reads every dataset of the table's layers once.
std::vector<LayerHashes> HashTableLayers(const RotationTable& table, const KvDump& dump);

// The table was fitted on exactly these files, in this order: keys and values of all its layers are the same.
bool KnowsDump(const RotationTable& table, std::span<const LayerHashes> dump);

// What else the fit read of a dump that the table knows (q, q_moment, w_o), and which is something else in
// this dump: layer -> datasets. What the dump lacks is not in it.
std::map<int, std::set<std::string>> OtherDatasets(const RotationTable& table,
                                                   std::span<const LayerHashes> dump);

// The --skip-tokens that the table was fitted with: sinks, which an engine is expected to keep exact.
std::uint64_t SkipTokens(const RotationTable& table);

// Token indices over all files of the dump.
struct ReportTokens {
  std::vector<TokenRange> fit;  // empty when the table does not know the dump
  std::vector<TokenRange> test;
  std::uint64_t num_validation = 0;
};
// The table's own test tokens on a dump that it knows, otherwise all tokens but the sinks. Throws Error when
// nothing is left.
ReportTokens TokensToReport(const RotationTable& table, const KvDump& dump, bool known_dump);

}  // namespace so4cal
