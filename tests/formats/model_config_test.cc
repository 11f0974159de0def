// SPDX-License-Identifier: Apache-2.0
#include "formats/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

std::string ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ModelConfig, EntriesThatAreSet) {
  const TempFolder folder;
  const auto error = [&](const std::string& config) {
    WriteBytesAtomically(folder / "config.json", config);
    return ErrorOf([&] { CheckModelFolder(folder.path()); });
  };
  for (const char* harmless :
       {"{}", "{\"clip_qkv\":null}", "{\"num_kv_shared_layers\":0}", "{\"attn_output_gate\":false}",
        "{\"quantization_config\":{}}", "{\"text_config\":3}"})
    EXPECT_EQ(error(harmless), "") << harmless;
  EXPECT_THAT(error("{\"clip_qkv\":8.5}"), AllOf(HasSubstr("clip_qkv"), HasSubstr("clipped")));
  EXPECT_THAT(error("{\"quantization_config\":{\"a\":1}}"), HasSubstr("quantized"));
  EXPECT_THAT(error("{\"text_config\":{\"attn_output_gate\":true}}"),
              HasSubstr("text_config: attn_output_gate"));
  EXPECT_THAT(error("[1"), HasSubstr("not valid JSON"));
}

TEST(ModelConfig, FilesBesideIt) {
  for (const auto& [name, words] :
       {std::pair{"so4cal_fold.json", "folded already"}, {"adapter_config.json", "merge"}}) {
    const TempFolder folder;
    EXPECT_EQ(ErrorOf([&] { CheckModelFolder(folder.path()); }), "");
    WriteBytesAtomically(folder / name, "{}");
    EXPECT_THAT(ErrorOf([&] { CheckModelFolder(folder.path()); }), AllOf(HasSubstr(name), HasSubstr(words)));
  }
}

TEST(ModelConfig, GgufKeys) {
  const auto error = [](const GgufHeader& header) {
    return ErrorOf([&] { CheckGgufKeys(header, "m.gguf"); });
  };
  GgufHeader header;
  header.numbers = {{"split.count", 1}, {"gemma3n.attention.shared_kv_layers", 0}};
  EXPECT_EQ(error(header), "");
  header.numbers["gemma3n.attention.shared_kv_layers"] = 2;
  EXPECT_THAT(error(header), HasSubstr("another layer"));
  header.numbers = {{"split.count", 3}};
  EXPECT_THAT(error(header), HasSubstr("one of 3 parts"));
  header.numbers = {{"deepseek2.attention.kv_lora_rank", 512}};
  EXPECT_THAT(error(header), HasSubstr("latent"));
  header.numbers.clear();
  header.keys = GgufNumberKey("olmo.attention.clamp_kqv", 8);
  EXPECT_THAT(error(header), HasSubstr("clipped"));
}

}  // namespace
}  // namespace so4cal
