// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "formats/kv_dump.h"
#include "lib/error.h"
#include "tests/support/dump_writer.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using testing::DumpWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;
namespace fs = std::filesystem;

std::string OpenError(const fs::path& path) {
  try {
    OpenHdf5ReadOnly(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Root may read everything: these tests then act as an ordinary user.
class AsUser {
 public:
  AsUser() {
    if (was_root_ && ::seteuid(65534) != 0) std::abort();
  }
  ~AsUser() {
    if (was_root_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool was_root_ = ::geteuid() == 0;
};

TEST(OpenHdf5ReadOnly, SaysWhatIsWrong) {
  const TempFolder folder;
  EXPECT_THAT(OpenError(folder / "none.h5"), HasSubstr("none.h5: can't be read: No such file"));
  EXPECT_THAT(OpenError(folder.path()), HasSubstr("expected an HDF5 file, found a folder"));
  std::ofstream(folder / "text.h5") << "text";
  EXPECT_THAT(OpenError(folder / "text.h5"),
              HasSubstr("expected an HDF5 file, found something else (4 bytes"));
  EXPECT_THAT(OpenError(folder / "text.h5" / "x"), HasSubstr("can't be read"));
  fs::permissions(folder.path(), fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  fs::permissions(folder / "text.h5", fs::perms::none);
  const AsUser user;
  EXPECT_THAT(OpenError(folder / "text.h5"), HasSubstr("can't be read: Permission denied"));
}

// Property: a dump is never changed, and nothing but the right to read it is needed.
TEST(OpenHdf5ReadOnly, ReadsFromAFolderThatItMustNotWrite) {
  const TempFolder folder;
  const Activations k = testing::ExactActivations(1, 256, 8, 1);
  const fs::path path = folder / "dump.h5";
  {
    DumpWriter writer(path);
    for (const char* name : {"/layers/0/k", "/layers/0/v"}) writer.Rows(name, {k}, "token,head,channel");
  }
  const auto content = [&] {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string before = content();
  const auto time = fs::last_write_time(path);
  using enum fs::perms;
  fs::permissions(path, owner_read | group_read | others_read);
  fs::permissions(folder.path(),
                  owner_read | owner_exec | group_read | group_exec | others_read | others_exec);
  {
    const AsUser user;
    EXPECT_TRUE(KvDump({path}, {}).Read(0, Side::kKey).values == k.values);
  }
  fs::permissions(folder.path(), owner_all);
  EXPECT_EQ(content(), before);
  EXPECT_EQ(fs::last_write_time(path), time);
}

// Property: HDF5's lock of a file that another process writes is reported as that.
TEST(OpenHdf5ReadOnly, OpenForWritingElsewhere) {
  const TempFolder folder;
  const fs::path path = folder / "dump.h5";
  int is_open[2], done[2];
  ASSERT_EQ(::pipe(is_open) + ::pipe(done), 0);
  char byte = 0;
  const int writer = ::fork();
  if (writer == 0) {
    ::close(done[1]);
    const DumpWriter dump(path);
    const bool said = ::write(is_open[1], &byte, 1) == 1;
    ::_exit(said && ::read(done[0], &byte, 1) == 0 ? 0 : 1);  // until the other end is closed
  }
  ASSERT_EQ(::read(is_open[0], &byte, 1), 1);
  EXPECT_THAT(OpenError(path), HasSubstr("another program has it open for writing"));
  for (const int end : {is_open[0], is_open[1], done[0], done[1]}) ::close(end);
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
}

TEST(Hdf5Read, PathsAttributesAndIntegers) {
  const TempFolder folder;
  {
    DumpWriter writer(folder / "a.h5");
    writer.Integers("/group/numbers", {3, -4});
    writer.Text("/group", "text", "hello");
    writer.Numbers("/group", "list", {1.5, 2});
  }
  const Hid file = OpenHdf5ReadOnly(folder / "a.h5");
  EXPECT_EQ(KindOf(file.get(), "/"), ObjectKind::kGroup);
  EXPECT_EQ(KindOf(file.get(), "/group"), ObjectKind::kGroup);
  EXPECT_EQ(KindOf(file.get(), "/group/numbers"), ObjectKind::kDataset);
  EXPECT_EQ(KindOf(file.get(), "/group/none/deeper"), ObjectKind::kNone);
  EXPECT_THAT(LinkNames(file.get(), "/group", "a"), ElementsAre("numbers"));
  EXPECT_THAT(ReadIntegers(file.get(), "/group/numbers", "a"), ElementsAre(3, -4));
  const Hid group(H5Gopen2(file.get(), "/group", H5P_DEFAULT), H5Gclose);
  EXPECT_EQ(ReadTextAttribute(group.get(), "text", "a"), "hello");
  EXPECT_EQ(ReadTextAttribute(group.get(), "none", "a"), std::nullopt);
  EXPECT_THAT(ReadNumberAttribute(group.get(), "list", "a").value(), ElementsAre(1.5, 2));
  EXPECT_THROW(ReadTextAttribute(group.get(), "list", "a"), Error);
  EXPECT_THROW(ReadNumberAttribute(group.get(), "text", "a"), Error);
}

// Text as h5py writes it (variable length) and its booleans (an enumeration of int8), and text padded with
// spaces as Fortran writes it.
TEST(Hdf5Read, AttributesOfOtherWriters) {
  const TempFolder folder;
  const Hid file(H5Fcreate((folder / "a.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const Hid scalar(H5Screate(H5S_SCALAR), H5Sclose);
  const auto write = [&](const char* name, hid_t type, const void* data) {
    const Hid attribute(H5Acreate2(file.get(), name, type, scalar.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    H5Check(H5Awrite(attribute.get(), type, data), name);
  };
  const Hid variable(H5Tcopy(H5T_C_S1), H5Tclose), padded(H5Tcopy(H5T_FORTRAN_S1), H5Tclose);
  const Hid boolean(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  H5Tset_size(variable.get(), H5T_VARIABLE);
  H5Tset_size(padded.get(), 8);
  const std::int8_t no = 0, yes = 1;
  H5Tenum_insert(boolean.get(), "FALSE", &no);
  H5Tenum_insert(boolean.get(), "TRUE", &yes);
  const char* text = "variable length";
  write("variable", variable.get(), &text);
  write("padded", padded.get(), "post    ");
  write("yes", boolean.get(), &yes);
  EXPECT_EQ(ReadTextAttribute(file.get(), "variable", "a"), "variable length");
  EXPECT_EQ(ReadTextAttribute(file.get(), "padded", "a"), "post");
  EXPECT_THAT(ReadNumberAttribute(file.get(), "yes", "a").value(), ElementsAre(1));
}

}  // namespace
}  // namespace so4cal
