// SPDX-License-Identifier: Apache-2.0
// A damaged table is refused, whatever is damaged: every attribute and dataset of a table is removed,
// replaced by another type and another shape, and poisoned; and each rule about values is broken once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>

#include "formats/atomic_file.h"
#include "formats/table_io.h"
#include "lib/error.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/sample_table.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Hdf5Edit;
using testing::Hdf5Object;
using testing::SampleTable;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class TableHdf5Read : public ::testing::Test {
 protected:
  TableHdf5Read() {
    WriteTableHdf5(SampleTable({.head_dim = 8,
                                .value_dim = 8,
                                .num_heads = 2,
                                .layers = {0},
                                .block = 8,
                                .rounding = Rounding::kRefined,
                                .signs = true}),
                   folder_ / "good");
    good_ = ReadFileBytes(folder_ / "good");
  }

  std::vector<Hdf5Object> Objects() { return Hdf5Edit(folder_ / "good").Objects(); }

  // The error on reading the good table after `edit`; "" when it is accepted.
  std::string ErrorAfter(const std::function<void(Hdf5Edit&)>& edit) {
    std::ofstream(folder_ / "bad.h5", std::ios::binary) << good_;
    {
      Hdf5Edit file(folder_ / "bad.h5");
      edit(file);
    }
    try {
      ReadTable(folder_ / "bad.h5");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  testing::TempFolder folder_;
  std::string good_;
};

TEST_F(TableHdf5Read, EveryMissingObjectIsRefused) {
  for (const Hdf5Object& object : Objects()) {
    if (object.group.find("/hashes/") != std::string::npos) continue;  // a dump need not have every dataset
    const std::string error = ErrorAfter([&](Hdf5Edit& file) { file.Remove(object); });
    EXPECT_THAT(error, HasSubstr("bad.h5")) << object.path();
    const bool other_message = object.group.find("counts") != std::string::npos || object.name == "1" ||
                               object.path() == "/format" || object.path() == "/layers/0";
    EXPECT_THAT(error, HasSubstr(other_message ? "" : object.path() + ": missing"));
  }
}

TEST_F(TableHdf5Read, EveryWrongTypeIsRefused) {
  for (const Hdf5Object& object : Objects()) {
    const std::string error = ErrorAfter([&](Hdf5Edit& file) {
      if (!object.attribute) {  // a string in the place of a group or dataset
        file.Remove(object);
        file.SetText(object, "text");
        return;
      }
      const Hid attribute(
          H5Aopen_by_name(file.file(), object.group.c_str(), object.name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
          H5Aclose);
      const Hid type(H5Aget_type(attribute.get()), H5Tclose);
      const bool text = H5Tget_class(type.get()) == H5T_STRING;
      if (text)
        file.SetNumber(object, 1);
      else
        file.SetText(object, "1");
    });
    EXPECT_THAT(error, AllOf(HasSubstr("bad.h5"), HasSubstr(object.path() + ": expected"))) << object.path();
  }
}

TEST_F(TableHdf5Read, EveryNegativeNumberAndListForANumberIsRefused) {
  for (const Hdf5Object& object : Objects()) {
    if (!object.attribute) continue;
    EXPECT_THAT(ErrorAfter([&](Hdf5Edit& file) { file.SetNumber(object, -1); }),
                HasSubstr(object.path() + ": "));
    if (object.name == "strides") continue;
    EXPECT_THAT(ErrorAfter([&](Hdf5Edit& file) {
                  file.SetNumbers(object, {1, 1}, false);
                }),
                HasSubstr(object.path() + ": expected one"));
  }
}

TEST_F(TableHdf5Read, EveryWrongDatasetTypeOrShapeIsRefused) {
  Hdf5Edit good(folder_ / "good");
  for (const Hdf5Object& object : good.Objects()) {
    if (object.attribute || good.IsGroup(object.path())) continue;
    const std::string path = object.path();
    std::vector<hsize_t> extents = good.Extents(path);
    EXPECT_THAT(ErrorAfter([&](Hdf5Edit& file) { file.Replace(path, H5T_IEEE_F32BE, extents); }),
                HasSubstr(path + ": expected little-endian"));
    extents.back() += 1;
    // Of any length, but what was added is a second layer 0.
    const std::string expected =
        path == "/dump_layers" ? "dump_layers: expected ascending" : path + ": expected shape";
    EXPECT_THAT(ErrorAfter([&](Hdf5Edit& file) { file.Replace(path, good.Type(path).get(), extents); }),
                HasSubstr(expected));
    extents.push_back(1);
    EXPECT_THAT(ErrorAfter([&](Hdf5Edit& file) { file.Replace(path, good.Type(path).get(), extents); }),
                HasSubstr(path + ": expected shape"));
  }
}

TEST_F(TableHdf5Read, EveryFloatThatIsNotFiniteIsRefused) {
  Hdf5Edit good(folder_ / "good");
  for (const Hdf5Object& object : good.Objects()) {
    if (object.attribute || good.IsGroup(object.path())) continue;
    if (H5Tget_class(good.Type(object.path()).get()) != H5T_FLOAT) continue;
    EXPECT_THAT(ErrorAfter([&](Hdf5Edit& file) { file.Poke(object.path(), 1, kInfinity); }),
                HasSubstr(object.path() + ": value 1"));
    if (object.name == "errors") continue;  // NaN: not measured
    EXPECT_THAT(ErrorAfter([&](Hdf5Edit& file) { file.Poke(object.path(), 1, kNan); }),
                HasSubstr(object.path() + ": value 1"));
  }
}

// Sizes that a damaged file claims are checked before anything is allocated: 2^40 ranges of 16 bytes here.
TEST_F(TableHdf5Read, HostileSizeIsRefusedWithoutAllocating) {
  const std::string error = ErrorAfter([](Hdf5Edit& file) {
    file.Replace("/dumps/0/fit", H5T_STD_U64LE, {hsize_t{1} << 40, 2}, true);
  });
  EXPECT_THAT(error, HasSubstr("/dumps/0/fit: holds fewer bytes than its shape"));
  EXPECT_THAT(ErrorAfter([](Hdf5Edit& file) {
                file.SetNumber({"/layers/0/k", "num_heads", true}, 1LL << 60);
              }),
              HasSubstr("/layers/0/k/num_heads: is 1152921504606846976, expected 1 to"));
}

struct BrokenRule {
  const char* name;
  void (*edit)(Hdf5Edit&);
  const char* expected;
};
const BrokenRule kBrokenRules[] = {
    {"OtherFormat",
     [](Hdf5Edit& f) {
       f.SetText({"/", "format", true}, "so4cal-rows");
     },
     "/format: is 'so4cal-rows'"},
    {"NewerVersion",
     [](Hdf5Edit& f) {
       f.SetNumber({"/", "format_version", true}, 2);
     },
     "/format_version: is 2: written by a newer so4cal"},
    {"VersionZero",
     [](Hdf5Edit& f) {
       f.SetNumber({"/", "format_version", true}, 0);
     },
     "/format_version: is 0"},
    {"PreRope",
     [](Hdf5Edit& f) {
       f.SetText({"/", "rope", true}, "pre");
     },
     "/rope: is 'pre', expected 'post'"},
    {"RootHeadDim",
     [](Hdf5Edit& f) {
       f.SetNumber({"/", "head_dim", true}, 64);
     },
     "/head_dim: is 64, expected 8"},
    {"TotalCounts",
     [](Hdf5Edit& f) {
       f.SetNumber({"/counts", "tokens dropped", true}, 9);
     },
     "/counts: expected"},
    {"FewerModelLayers",
     [](Hdf5Edit& f) {
       f.SetNumber({"/", "num_model_layers", true}, 1LL << 40);
     },
     "/num_model_layers: is 1099511627776"},
    {"Bits",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "bits", true}, 5);
     },
     "/layers/0/k/bits: is 5"},
    {"HeadDim",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "head_dim", true}, 12);
     },
     "/layers/0/k: "},
    {"HugeHeadDim",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "head_dim", true}, 1 << 20);
     },
     "/layers/0/k/head_dim: is 1048576"},
    {"OtherHeadDim",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/v", "head_dim", true}, 16);
     },
     "expected shape"},
    {"Block",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "block", true}, 3);
     },
     "/layers/0/k: "},
    {"Grid",
     [](Hdf5Edit& f) {
       f.SetText({"/layers/0/k", "grid", true}, "cubic");
     },
     "/layers/0/k/grid is 'cubic', expected one of symmetric, full, lloyd"},
    {"Scale",
     [](Hdf5Edit& f) {
       f.SetText({"/layers/0/k", "scale", true}, "max");
     },
     "/layers/0/k/scale is 'max'"},
    {"Family",
     [](Hdf5Edit& f) {
       f.SetText({"/layers/0/k", "family", true}, "so5");
     },
     "/layers/0/k/family is 'so5'"},
    {"DenseFamilyWithoutMatrix",
     [](Hdf5Edit& f) {
       f.SetText({"/layers/0/k", "family", true}, "dense");
     },
     "'dense'"},
    {"Shared",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "shared", true}, 2);
     },
     "/layers/0/k/shared: is 2"},
    {"Hadamard",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "hadamard", true}, 2);
     },
     "/layers/0/k/hadamard: is 2"},
    {"NumHeads",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "num_heads", true}, 3);
     },
     "expected shape [3"},
    {"NoHeads",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "num_heads", true}, 0);
     },
     "/layers/0/k/num_heads: is 0"},
    {"Stride",
     [](Hdf5Edit& f) {
       f.SetNumbers({"/layers/0/k", "strides", true}, {1, 3}, false);
     },
     "/layers/0/k"},
    {"StrideZero",
     [](Hdf5Edit& f) {
       f.SetNumbers({"/layers/0/k", "strides", true}, {0, 1}, false);
     },
     "/layers/0/k/strides: has 0"},
    {"FewerStrides",
     [](Hdf5Edit& f) {
       f.SetNumbers({"/layers/0/k", "strides", true}, {1}, false);
     },
     "quaternions: expected shape"},
    {"TooManyStrides",
     [](Hdf5Edit& f) {
       f.SetNumbers({"/layers/0/k", "strides", true}, std::vector<long long>(65, 1), false);
     },
     "/layers/0/k/strides: expected a list of at most 64"},
    {"UnknownArray",
     [](Hdf5Edit& f) {
       f.SetText({"/layers/0/k", "arrays", true}, "offset bias");
     },
     "/layers/0/k/arrays: has 'bias'"},
    {"HiddenArray",
     [](Hdf5Edit& f) {
       f.SetText({"/layers/0/k", "arrays", true}, "signs metric");
     },
     "/layers/0/k/offset: not a field"},
    {"UnitNorm", [](Hdf5Edit& f) { f.Poke("/layers/0/k/quaternions", 5, 1.5); },
     "/layers/0/k/head 0: stage 0, block 0: quaternion has norm"},
    {"Chosen", [](Hdf5Edit& f) { f.Poke("/layers/0/k/chosen", 1, 4); },
     "/layers/0/k/chosen: head 1 has code 4"},
    {"ChosenDense", [](Hdf5Edit& f) { f.Poke("/layers/0/k/chosen", 1, 3); },
     "/layers/0/k/head 1: chosen is 'dense'"},
    {"RoundingCode", [](Hdf5Edit& f) { f.Poke("/layers/0/k/rounding", 0, 3); },
     "/layers/0/k/rounding: head 0 has code 3"},
    {"NearestWithMetric", [](Hdf5Edit& f) { f.Poke("/layers/0/k/rounding", 0, 0); }, "/layers/0/k/head 0: "},
    {"Damping", [](Hdf5Edit& f) { f.Poke("/layers/0/k/damping", 0, -1); }, "/layers/0/k/head 0: damping"},
    {"Rounds", [](Hdf5Edit& f) { f.Poke("/layers/0/k/rounds", 0, 255); }, "/layers/0/k/head 0: rounds"},
    {"Signs", [](Hdf5Edit& f) { f.Poke("/layers/0/k/signs", 8, 0); },
     "/layers/0/k/head 1: sign of channel 0 is 0"},
    {"Metric", [](Hdf5Edit& f) { f.Poke("/layers/0/k/metric", 1, 1e9); },
     "/layers/0/k/head 0: metric is not symmetric"},
    {"Loss", [](Hdf5Edit& f) { f.Poke("/layers/0/k/loss", 0, 2); }, "/layers/0/k/loss: head 0 has code 2"},
    {"Objective", [](Hdf5Edit& f) { f.Poke("/layers/0/k/objective", 0, 3); },
     "/layers/0/k/objective: head 0 has code 3"},
    {"Shrink", [](Hdf5Edit& f) { f.Poke("/layers/0/k/shrink", 0, 1.5); }, "shrink"},
    {"Iterations", [](Hdf5Edit& f) { f.Poke("/layers/0/k/iterations", 0, 1e10); },
     "/layers/0/k/iterations: head 0"},
    {"Converged", [](Hdf5Edit& f) { f.Poke("/layers/0/k/converged", 0, 2); }, "converged"},
    {"NegativeError", [](Hdf5Edit& f) { f.Poke("/layers/0/k/errors", 3, -1); }, "error"},
    {"RangeBeyondTokens", [](Hdf5Edit& f) { f.Poke("/dumps/0/test", 1, 1001); },
     "/dumps/0/test: range 0 is [850, 1001)"},
    {"RangeBackwards", [](Hdf5Edit& f) { f.Poke("/dumps/0/fit", 0, 701); },
     "/dumps/0/fit: range 0 is [701, 700)"},
    {"RangesOverlap", [](Hdf5Edit& f) { f.Poke("/dumps/1/fit", 2, 50); },
     "/dumps/1/fit: range 1 is [50, 300)"},
    {"UnknownField",
     [](Hdf5Edit& f) {
       f.SetNumber({"/layers/0/k", "bias", true}, 1);
     },
     "/layers/0/k/bias: not a field"},
    {"LayerName",
     [](Hdf5Edit& f) { H5Lmove(f.file(), "/layers/0", f.file(), "/layers/00", H5P_DEFAULT, H5P_DEFAULT); },
     "/layers/00: expected a layer number"},
    {"SoftLink",
     [](Hdf5Edit& f) {
       f.Remove({"/layers/0/v", "offset", false});
       H5Lcreate_soft("/layers/0/k/offset", f.file(), "/layers/0/v/offset", H5P_DEFAULT, H5P_DEFAULT);
     },
     "/layers/0/v/offset: is a soft or external link"},
};

class BrokenRules : public TableHdf5Read, public ::testing::WithParamInterface<BrokenRule> {};
INSTANTIATE_TEST_SUITE_P(Hdf5, BrokenRules, ::testing::ValuesIn(kBrokenRules),
                         [](const auto& info) { return info.param.name; });

TEST_P(BrokenRules, IsRefused) {
  EXPECT_THAT(ErrorAfter(GetParam().edit), AllOf(HasSubstr("bad.h5"), HasSubstr(GetParam().expected)));
}

// h5py stores text with variable length and numbers signed: a table that a script has touched is still read.
TEST_F(TableHdf5Read, AcceptsWhatH5pyWrites) {
  const auto edit = [](Hdf5Edit& file) {
    file.SetNumber({"/", "seed", true}, 5);
    file.Remove({"/", "model", true});
    const Hid type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.get(), H5T_VARIABLE);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    const Hid space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hid attribute(H5Acreate2(file.file(), "model", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
                        H5Aclose);
    const char* text = "another model";
    H5Awrite(attribute.get(), type.get(), &text);
  };
  EXPECT_EQ(ErrorAfter(edit), "");
  const RotationTable table = ReadTable(folder_ / "bad.h5");
  EXPECT_EQ(table.model, "another model");
  EXPECT_EQ(table.seed, 5U);
}

}  // namespace
}  // namespace so4cal
