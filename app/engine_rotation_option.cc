// SPDX-License-Identifier: Apache-2.0
#include "app/engine_rotation_option.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "formats/atomic_file.h"
#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::string_view kBlocks = "hadamard:", kSigns = "signs:";

std::vector<std::int8_t> ReadSigns(const std::string& path) {
  std::string text = ReadFileBytes(path);
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  std::vector<std::int8_t> signs;
  for (std::string word; words >> word;) {
    if (word != "1" && word != "+1" && word != "-1")
      throw Error(path + ": sign " + std::to_string(signs.size()) + " is '" + word.substr(0, 20) +
                  "', expected 1 or -1");
    signs.push_back(word == "-1" ? -1 : 1);
  }
  if (signs.empty()) throw Error(path + ": is empty, expected signs 1 and -1");
  return signs;
}

int ParseBlock(std::string_view text) {
  int block = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
  // 0 is how the library says "as large as fits", which has a word of its own here.
  if (error != std::errc() || end != text.data() + text.size() || block == 0)
    throw UsageError("--engine-rotation: '" + std::string(text) +
                     "' is no block size, expected a power of two");
  return block;
}

}  // namespace

EngineRotation ParseEngineRotation(const std::string& text) {
  EngineRotation rotation;
  if (text == "hadamard" || text.starts_with(kBlocks)) rotation.kind = EngineRotation::Kind::kHadamard;
  if (text.starts_with(kBlocks)) rotation.block = ParseBlock(std::string_view(text).substr(kBlocks.size()));
  if (text.starts_with(kSigns)) {
    rotation.kind = EngineRotation::Kind::kSigns;
    rotation.signs = ReadSigns(text.substr(kSigns.size()));
  }
  if (rotation.kind == EngineRotation::Kind::kNone && text != "none")
    throw UsageError("--engine-rotation is '" + text +
                     "', expected none, hadamard, hadamard:N or signs:FILE");
  rotation.Check();
  return rotation;
}

}  // namespace so4cal
