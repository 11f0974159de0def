// SPDX-License-Identifier: Apache-2.0
#include "formats/kv_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/error.h"
#include "tests/support/dump_writer.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using testing::DumpWriter;
using ::testing::ElementsAre;
using testing::ExactActivations;
using ::testing::HasSubstr;
using testing::Storage;
using testing::Stored;
using testing::TempFolder;
using Paths = std::vector<std::filesystem::path>;

std::string ErrorOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void ExpectSame(const Activations& read, const Activations& written) {
  EXPECT_EQ(read.num_heads, written.num_heads);
  EXPECT_EQ(read.num_tokens, written.num_tokens);
  EXPECT_EQ(read.channels, written.channels);
  EXPECT_TRUE(read.values == written.values);
}

// One layer with k [tokens, 2, 8] and v [tokens, 2, 16].
struct Sample {
  explicit Sample(std::size_t num_tokens = 300, unsigned seed = 1)
      : k(ExactActivations(2, num_tokens, 8, seed)), v(ExactActivations(2, num_tokens, 16, seed + 1)) {}
  void Write(DumpWriter& writer, const std::string& group, const Storage& storage = {}) const {
    writer.Rows(group + "/k", {k}, "token,head,channel", storage);
    writer.Rows(group + "/v", {v}, "token,head,channel", storage);
  }
  Activations k, v;
};

// Property: whatever the axes, the type and the storage, exactly the written values come back. All values
// are exact in every type, so no tolerance.
struct Layout {
  const char* axes;
  hsize_t batches;
};
class Layouts : public ::testing::TestWithParam<std::tuple<Layout, Stored>> {};

TEST_P(Layouts, ReadAsWritten) {
  const auto& [layout, type] = GetParam();
  const Sample sample;
  const TempFolder folder;
  const bool stacked = std::string(layout.axes).starts_with("layer");
  const Sample other(300, 7);
  const std::size_t rank = ParseAxes(layout.axes, "").size();
  // No extent is a multiple of its chunk; the second cut leaves 1 everywhere outside the last two axes.
  std::vector<hsize_t> wide(rank, 64), narrow(rank, 1);
  wide[rank - 1] = 5;
  narrow[rank - 2] = 7;
  narrow[rank - 1] = 64;
  for (const Storage& storage : {Storage{type, {}, false}, Storage{type, wide, false},
                                 Storage{type, wide, true}, Storage{type, narrow, true}}) {
    const auto path = folder / "dump.h5";
    {
      DumpWriter writer(path);
      const std::string group = stacked ? "" : "/layers/0";
      const auto layers = [&](const Activations& a, const Activations& b) {
        return stacked ? std::vector{a, b} : std::vector{a};
      };
      writer.Rows(group + "/k", layers(sample.k, other.k), layout.axes, storage, layout.batches);
      writer.Rows(group + "/v", layers(sample.v, other.v), layout.axes, storage, layout.batches);
    }
    const KvDump dump({path}, {});
    EXPECT_EQ(dump.num_tokens(), 300u);
    ExpectSame(dump.Read(0, Side::kKey), sample.k);
    ExpectSame(dump.Read(0, Side::kValue), sample.v);
    if (stacked) ExpectSame(dump.Read(1, Side::kValue), other.v);
    std::vector<std::uint64_t> starts;
    for (hsize_t b = 0; b < layout.batches; ++b) starts.push_back(b * 300 / layout.batches);
    EXPECT_EQ(dump.files()[0].sequence_starts, starts);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         ::testing::Combine(::testing::Values(Layout{"token,head,channel", 1},
                                                              Layout{"head,token,channel", 1},
                                                              Layout{"batch,head,token,channel", 3},
                                                              Layout{"batch,token,head,channel", 3},
                                                              Layout{"layer,token,head,channel", 1},
                                                              Layout{"layer,head,token,channel", 1},
                                                              Layout{"layer,batch,head,token,channel", 3}),
                                            ::testing::ValuesIn(testing::kStoredTypes)));

// Property: so do all head_dims that models use, with v's different from k's, and 1 and 32 KV heads.
TEST(KvDump, HeadDimsAndHeads) {
  const TempFolder folder;
  const int head_dims[] = {64, 80, 96, 112, 128, 192, 256};
  for (const int head_dim : head_dims) {
    for (const int heads : {1, 32}) {
      const Activations k = ExactActivations(heads, 256, head_dim, 3),
                        v = ExactActivations(heads, 256, 64, 4);
      const auto path = folder / "dump.h5";
      {
        DumpWriter writer(path);
        writer.Rows("/layers/11/k", {k}, "token,head,channel");
        writer.Rows("/layers/11/v", {v}, "head,token,channel");
      }
      const KvDump dump({path}, {});
      EXPECT_EQ(dump.layer(11).k.channels, head_dim);
      EXPECT_EQ(dump.layer(11).v.channels, 64);
      EXPECT_EQ(dump.layer(11).softmax_scale, 1 / std::sqrt(head_dim));
      ExpectSame(dump.Read(11, Side::kKey), k);
      ExpectSame(dump.Read(11, Side::kValue), v);
    }
  }
}

// Property: values larger than one read piece (4 MiB) come back whole: 3 pieces, also as one chunk.
TEST(KvDump, LargerThanOnePiece) {
  const TempFolder folder;
  const Activations k = ExactActivations(4, 10000, 64, 5);
  for (const std::vector<hsize_t>& chunks : {std::vector<hsize_t>{}, {64, 1, 64}, {10000, 4, 64}}) {
    const auto path = folder / "dump.h5";
    {
      DumpWriter writer(path);
      writer.Rows("/layers/0/k", {k}, "token,head,channel", {Stored::kF32, chunks, false});
      writer.Rows("/layers/0/v", {k}, "head,token,channel", {Stored::kF16, {}, false});
    }
    const KvDump dump({path}, {});
    ExpectSame(dump.Read(0, Side::kKey), k);
    ExpectSame(dump.Read(0, Side::kValue), k);
  }
}

TEST(KvDump, SomeLayersInAnyOrderOfNames) {
  const TempFolder folder;
  const auto path = folder / "dump.h5";
  const Sample two(300, 2), ten(300, 10);
  {
    DumpWriter writer(path);
    ten.Write(writer, "/layers/10");  // HDF5 lists "10" before "2"
    two.Write(writer, "/layers/2");
    writer.Numbers("/", "num_layers", {30});
    writer.Text("/", "model", "tiny");
  }
  const KvDump dump({path}, {});
  EXPECT_EQ(dump.num_model_layers(), 30);
  EXPECT_EQ(dump.model(), "tiny");
  ASSERT_EQ(dump.layers().size(), 2u);
  EXPECT_EQ(dump.layers()[0].layer, 2);
  EXPECT_EQ(dump.layers()[1].layer, 10);
  ExpectSame(dump.Read(10, Side::kKey), ten.k);
  EXPECT_THAT(ErrorOf([&] { dump.Read(3, Side::kKey); }), HasSubstr("expected layer 3, found layers 2, 10"));
}

TEST(KvDump, NamesWithLayer) {
  const TempFolder folder;
  const auto path = folder / "dump.h5";
  const Sample sample;
  {
    DumpWriter writer(path);
    writer.Rows("/model/block_007/attn/cache_k", {sample.k}, "token,head,channel");
    writer.Rows("/model/block_007/attn/cache_v", {sample.v}, "token,head,channel");
    writer.Numbers("/model/block_007/attn", "softmax_scale", {0.25});
    writer.Rows("/k_4", {sample.k}, "token,head,channel");
    writer.Rows("/v_4", {sample.v}, "token,head,channel");
  }
  DumpOptions options;
  options.key_name = "model/block_{layer}/attn/cache_k";
  options.value_name = "/model/block_{layer}/attn/cache_v";
  const KvDump nested({path}, options);
  EXPECT_EQ(nested.layer(7).softmax_scale, 0.25);
  ExpectSame(nested.Read(7, Side::kValue), sample.v);
  options.key_name = "k_{layer}";
  options.value_name = "v_{layer}";
  ExpectSame(KvDump({path}, options).Read(4, Side::kKey), sample.k);
  options.value_name = "w_{layer}";
  EXPECT_THAT(ErrorOf([&] { KvDump({path}, options); }),
              ::testing::AllOf(HasSubstr("expected the dataset /w_4"), HasSubstr("--value-name")));
}

// Property: each file starts a sequence, tokens join in the order of the files, and query positions follow.
TEST(KvDump, SeveralFiles) {
  const TempFolder folder;
  const Sample a(200, 1), b(100, 5);
  const Activations q = ExactActivations(4, 3, 8, 9);
  const Paths paths = {folder / "a.h5", folder / "b.h5"};
  for (const auto& [path, sample] : {std::pair(paths[0], &a), std::pair(paths[1], &b)}) {
    DumpWriter writer(path);
    sample->Write(writer, "/layers/0");
    writer.Rows("/layers/0/q", {q}, "token,head,channel");
    writer.Integers("/layers/0/q_positions", {5, 50, 99});
    writer.Integers("/sequence_starts", {0, 60});
    writer.Array("/layers/0/q_moment", {2, 8, 8}, std::vector<float>(128, sample == &a ? 1.f : 4.f));
  }
  const KvDump dump(paths, {});
  EXPECT_EQ(dump.num_tokens(), 300u);
  EXPECT_EQ(dump.files()[1].num_tokens, 100u);
  EXPECT_THAT(dump.files()[1].sequence_starts, ElementsAre(0, 60));
  const Activations k = dump.Read(0, Side::kKey);
  for (int h = 0; h < 2; ++h)
    for (const std::size_t t : {0, 199, 200, 299})
      EXPECT_TRUE(
          std::ranges::equal(k.head(h).row(t), t < 200 ? a.k.head(h).row(t) : b.k.head(h).row(t - 200)));
  const auto queries = dump.ReadQueries(0);
  EXPECT_THAT(queries->positions, ElementsAre(5, 50, 99, 205, 250, 299));
  EXPECT_EQ(queries->rows.head(3).row(5)[7], q.head(3).row(2)[7]);
  EXPECT_DOUBLE_EQ(dump.ReadQueryMoment(0)->at(3), (200 * 1. + 100 * 4.) / 300);
  EXPECT_EQ(dump.Hashes(0).size(), 2u);
}

TEST(KvDump, FilesOfDifferentModelsAreRefused) {
  const TempFolder folder;
  const auto write = [&](const char* name, const std::string& group, int channels, const char* model) {
    DumpWriter writer(folder / name);
    writer.Text("/", "model", model);
    for (const char* side : {"/k", "/v"})
      writer.Rows(group + side, {ExactActivations(2, 300, channels, 1)}, "token,head,channel");
  };
  write("a.h5", "/layers/0", 8, "one");
  write("layer.h5", "/layers/1", 8, "one");
  write("dim.h5", "/layers/0", 16, "one");
  write("model.h5", "/layers/0", 8, "two");
  const auto error = [&](const char* name) {
    return ErrorOf([&] { KvDump({folder / "a.h5", folder / name}, {}); });
  };
  EXPECT_THAT(error("layer.h5"), HasSubstr("layer.h5: expected layer 0"));
  EXPECT_THAT(error("dim.h5"), HasSubstr("channels of k 8"));
  EXPECT_THAT(error("model.h5"), HasSubstr("expected model \"one\""));
}

TEST(KvDump, OptionalPartsAndAttributes) {
  const TempFolder folder;
  const Sample sample;
  const Activations q = ExactActivations(6, 300, 8, 3);
  std::vector<float> moment(2 * 8 * 8), w_o(5 * 6 * 16);
  for (std::size_t i = 0; i < moment.size(); ++i) moment[i] = static_cast<float>(i % 64);
  for (std::size_t i = 0; i < w_o.size(); ++i) w_o[i] = static_cast<float>(i % 128);
  const auto path = folder / "dump.h5";
  {
    DumpWriter writer(path);
    sample.Write(writer, "/layers/0");
    writer.Rows("/layers/0/q", {q}, "head,token,channel");
    writer.Array("/layers/0/q_moment", {2, 8, 8}, moment, {Stored::kF64, {}, false});
    writer.Array("/layers/0/w_o", {5, 96}, w_o, {Stored::kBf16Opaque, {2, 7}, true});
    writer.Numbers("/layers/0", "sliding_window", {128});
    writer.Numbers("/layers/0", "softmax_sink", {1});
    writer.Numbers("/layers/0", "logit_softcap", {50});
  }
  const KvDump dump({path}, {});
  const LayerInfo& info = dump.layer(0);
  EXPECT_EQ(info.sliding_window, 128);
  EXPECT_EQ(info.logit_softcap, 50);
  EXPECT_TRUE(info.softmax_sink && info.has_q_moment && info.has_w_o && !info.has_q_positions);
  EXPECT_EQ(info.q->num_heads, 6);
  EXPECT_EQ(info.q->axes, "head,token,channel");
  const auto queries = dump.ReadQueries(0);
  ExpectSame(queries->rows, q);
  EXPECT_EQ(queries->positions[299], 299u);
  EXPECT_EQ(dump.ReadQueryMoment(0)->at(100), 36);
  const auto matrix = dump.ReadOutputProjection(0);
  EXPECT_EQ(matrix->rows, 5u);
  EXPECT_EQ(matrix->cols, 96u);
  EXPECT_TRUE(matrix->values == w_o);
}

// Property: the hash is of the values, not of how they are stored, and one changed value changes it.
TEST(KvDump, HashOfValues) {
  const TempFolder folder;
  Sample sample;
  const auto hash = [&](const Storage& storage, const char* side) {
    {
      DumpWriter writer(folder / "dump.h5");
      sample.Write(writer, "/layers/0", storage);
    }
    const KvDump dump({folder / "dump.h5"}, {});
    const std::string direct = dump.Hashes(0)[0].at(side);
    const KvDump again({folder / "dump.h5"}, {});
    again.Read(0, Side::kKey);
    EXPECT_EQ(again.Hashes(0)[0].at(side), direct);
    return direct;
  };
  const std::string contiguous = hash({}, "k");
  EXPECT_EQ(contiguous.size(), 32u);
  EXPECT_EQ(hash({Stored::kF16, {100, 1, 4}, true}, "k"), contiguous);
  EXPECT_NE(hash({}, "v"), contiguous);
  sample.k.values[4321] += 0.0625f;
  EXPECT_NE(hash({}, "k"), contiguous);
}

// What a table records must be what its fit has read, no more.
TEST(KvDump, HashesOfReadNamesOnlyWhatWasRead) {
  const TempFolder folder;
  const Sample sample;
  {
    DumpWriter writer(folder / "dump.h5");
    for (const char* group : {"/layers/0", "/layers/1"}) {
      sample.Write(writer, group);
      writer.Rows(std::string(group) + "/q", {ExactActivations(4, 2, 8, 3)}, "token,head,channel");
      writer.Integers(std::string(group) + "/q_positions", {5, 299});
      writer.Array(std::string(group) + "/w_o", {3, 4 * 16}, std::vector<float>(3 * 4 * 16, 0.5f));
    }
  }
  const KvDump dump({folder / "dump.h5"}, {});
  EXPECT_THAT(dump.HashesOfRead(0), ::testing::ElementsAre(::testing::IsEmpty()));
  dump.Read(0, Side::kKey);
  dump.ReadQueries(0);
  using ::testing::Key;
  EXPECT_THAT(dump.HashesOfRead(0)[0],
              ::testing::UnorderedElementsAre(Key("k"), Key("q"), Key("q_positions")));
  EXPECT_THAT(dump.HashesOfRead(1)[0], ::testing::IsEmpty());
  dump.Read(0, Side::kValue);
  dump.ReadOutputProjection(0);
  EXPECT_EQ(dump.HashesOfRead(0), dump.Hashes(0));
  EXPECT_EQ(dump.Hashes(0)[0].size(), 5u);
}

TEST(KvDump, ConstantHeadsWhenAllowed) {
  const TempFolder folder;
  Sample sample;
  std::fill(sample.v.values.begin() + 300 * 16, sample.v.values.end(), 0.f);  // head 1
  {
    DumpWriter writer(folder / "dump.h5");
    sample.Write(writer, "/layers/0");
  }
  DumpOptions options;
  EXPECT_THAT(ErrorOf([&] { KvDump({folder / "dump.h5"}, options).Read(0, Side::kValue); }),
              HasSubstr("found head 1 to be all zero"));
  options.allow_constant_heads = true;
  const KvDump dump({folder / "dump.h5"}, options);
  dump.Read(0, Side::kValue);
  EXPECT_THAT(dump.ConstantHeads(0, Side::kValue), ElementsAre(1));
}

TEST(KvDump, FewTokensWhenAllowed) {
  const TempFolder folder;
  {
    DumpWriter writer(folder / "dump.h5");
    Sample(255).Write(writer, "/layers/0");
  }
  DumpOptions options;
  EXPECT_THAT(ErrorOf([&] { KvDump({folder / "dump.h5"}, options); }),
              HasSubstr("at least 256 tokens, found 255"));
  options.allow_few_tokens = true;
  EXPECT_EQ(KvDump({folder / "dump.h5"}, options).num_tokens(), 255u);
}

TEST(KvDump, AxesOptionOverridesTheFile) {
  const TempFolder folder;
  const Activations k = ExactActivations(300, 300, 8, 1);
  {
    DumpWriter writer(folder / "dump.h5");
    for (const char* path : {"/layers/0/k", "/layers/0/v"})
      writer.Rows(path, {k}, "head,token,channel", {}, 1, false);
  }
  DumpOptions options;
  EXPECT_THAT(ErrorOf([&] { KvDump({folder / "dump.h5"}, options); }), HasSubstr("--axes"));
  options.axes = "head,token,channel";
  ExpectSame(KvDump({folder / "dump.h5"}, options).Read(0, Side::kKey), k);
}

TEST(DumpOptions, Check) {
  const auto refused = [](const std::function<void(DumpOptions&)>& change) {
    DumpOptions options;
    change(options);
    EXPECT_THROW(options.Check(), UsageError);
  };
  EXPECT_NO_THROW(DumpOptions{}.Check());
  refused([](DumpOptions& o) { o.axes = "tokens"; });
  refused([](DumpOptions& o) { o.key_name = ""; });
  refused([](DumpOptions& o) { o.value_name = "k"; });
  refused([](DumpOptions& o) { o.key_name = "k_{layer}"; });
}

}  // namespace
}  // namespace so4cal
