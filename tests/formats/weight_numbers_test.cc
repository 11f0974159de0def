// SPDX-License-Identifier: Apache-2.0
#include "formats/weight_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/atomic_file.h"
#include "lib/error.h"
#include "tests/support/temp_folder.h"

namespace so4cal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

WeightTensor Weight(ElementType type) {
  return {"w", "a", type, 2, 3, 5};
}  // 5 bytes of something else first

std::string ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Numbers that all types hold: nothing is lost, and the bytes around stay.
TEST(WeightNumbers, EveryTypeInItsPlace) {
  const TempFolder folder;
  for (const ElementType type :
       {ElementType::kF64, ElementType::kF32, ElementType::kF16, ElementType::kBf16}) {
    const std::size_t size = ElementBytes(type);
    WriteBytesAtomically(folder / "a", "abcde" + std::string(6 * size, '\0') + "z");
    const FileAccess file(folder / "a", FileAccess::Mode::kOverwrite);
    EXPECT_EQ(StoreNumbers(file, Weight(type), 2, std::vector<double>{1, -0.5, 96}).max_abs, 0);
    EXPECT_THAT(LoadNumbers(file, Weight(type), 0, 6), ElementsAre(0, 0, 1, -0.5, 96, 0));
    EXPECT_EQ(file.Read(0, 5), "abcde");
    EXPECT_EQ(file.Read(5 + 6 * size, 1), "z");
  }
}

// By hand: bf16 has 8 bits, steps of 1/128 from 1 on. A tie goes to the even neighbour, a hair more goes up.
TEST(WeightNumbers, RoundsOnceAndSaysWhatThatChanged) {
  const TempFolder folder;
  WriteBytesAtomically(folder / "a", std::string(17, '\0'));
  const FileAccess file(folder / "a", FileAccess::Mode::kOverwrite);
  const WeightTensor weight = Weight(ElementType::kBf16);
  const RoundingChange change =
      StoreNumbers(file, weight, 0, std::vector<double>{1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 2});
  EXPECT_THAT(LoadNumbers(file, weight, 0, 3), ElementsAre(1, 1 + 0x1p-7, 2));
  EXPECT_EQ(change.max_abs, 0x1p-8);
  EXPECT_NEAR(change.squares, 2 * 0x1p-16, 1e-12);  // without the 2^-40
  EXPECT_NEAR(change.weight_squares, 6.0157, 1e-4);
}

TEST(WeightNumbers, RefusesWhatIsNotFinite) {
  const TempFolder folder;
  std::string bytes(17, '\0');
  bytes[5 + 2 * 4 + 1] = 0x7c;  // 0x7c00, infinity
  WriteBytesAtomically(folder / "a", bytes);
  const FileAccess file(folder / "a", FileAccess::Mode::kOverwrite);
  const WeightTensor weight = Weight(ElementType::kF16);
  EXPECT_THAT(ErrorOf([&] { LoadNumbers(file, weight, 3, 3); }),
              HasSubstr("'w' row 1, column 1 is NaN or infinite"));
  EXPECT_THAT(ErrorOf([&] {
                StoreNumbers(file, weight, 1, std::vector<double>{65519.9, 65520});
              }),
              HasSubstr("row 0, column 2 is too large"));
  EXPECT_THAT(ErrorOf([&] { LoadNumbers(file, weight, 5, 2); }), HasSubstr("ends before byte"));
}

}  // namespace
}  // namespace so4cal
