// SPDX-License-Identifier: Apache-2.0
#include "formats/weight_numbers.h"

#include <algorithm>
#include <cmath>

#include "formats/byte_writer.h"
#include "lib/error.h"
#include "lib/half.h"

namespace so4cal {
namespace {

void AppendElement(ElementType type, double value, std::string& bytes) {
  switch (type) {
    case ElementType::kF64:
      return AppendLittleEndian(bytes, value);
    case ElementType::kF32:
      return AppendLittleEndian(bytes, static_cast<float>(value));
    case ElementType::kF16:
      return AppendLittleEndian(bytes, HalfFromDouble(value));
    case ElementType::kBf16:
      return AppendLittleEndian(bytes, BfloatFromDouble(value));
  }
}

void CheckFinite(double value, const WeightTensor& weight, std::uint64_t number, const char* what) {
  if (std::isfinite(value)) return;
  throw Error("tensor '" + weight.name + "' row " + std::to_string(number / weight.columns) + ", column " +
              std::to_string(number % weight.columns) + what);
}

}  // namespace

void RoundingChange::Add(const RoundingChange& other) {
  max_abs = std::max(max_abs, other.max_abs);
  squares += other.squares;
  weight_squares += other.weight_squares;
}

std::vector<double> LoadNumbers(const FileAccess& file, const WeightTensor& weight, std::uint64_t first,
                                std::uint64_t count) {
  const std::size_t size = ElementBytes(weight.type);
  const std::string bytes = file.Read(weight.begin + first * size, count * size);
  std::vector<double> numbers(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    numbers[i] = LoadElement(weight.type, bytes.data() + i * size);
    CheckFinite(numbers[i], weight, first + i, " is NaN or infinite: the model is damaged");
  }
  return numbers;
}

RoundingChange StoreNumbers(const FileAccess& file, const WeightTensor& weight, std::uint64_t first,
                            std::span<const double> numbers) {
  const std::size_t size = ElementBytes(weight.type);
  std::string bytes;
  bytes.reserve(numbers.size() * size);
  RoundingChange change;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    AppendElement(weight.type, numbers[i], bytes);
    const double stored = LoadElement(weight.type, bytes.data() + i * size);
    CheckFinite(stored, weight, first + i,
                " is too large for its type after the fold: convert the model to f32 first");
    const double lost = std::abs(stored - numbers[i]);
    change.Add({lost, lost * lost, numbers[i] * numbers[i]});
  }
  file.Write(weight.begin + first * size, bytes);
  return change;
}

}  // namespace so4cal
