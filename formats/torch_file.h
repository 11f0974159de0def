// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/pickle.h"
#include "formats/zip_archive.h"

namespace so4cal {

// What torch.save writes: a zip archive of a pickle (STEM/data.pkl) and one member per tensor storage
// (STEM/data/KEY).

// Builds such a file of f32 tensors. Write the value through pickle() and Tensor(), in Python's order.
class TorchWriter {
 public:
  PickleWriter& pickle() { return pickle_; }
  void Tensor(std::span<const std::uint64_t> shape, std::span<const float> values);  // row-major
  // Throws Error that starts with `where` when the file would be too large.
  std::string Finish(const std::string& stem, const std::string& where) &&;

 private:
  PickleWriter pickle_;
  std::vector<std::string> storages_;
};

struct TorchTensor {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;  // row-major
};

// A file of torch.save in memory. Nothing in it is run. Throws Error that starts with `where` on anything
// that is not such a file, in the constructor and in Tensor().
class TorchFile {
 public:
  TorchFile(std::string bytes, std::string where);
  const PickleValue& root() const { return pickle_.root(); }
  // A tensor of f64, f32, f16 or bf16 with any strides. `what` names it in errors.
  TorchTensor Tensor(const PickleValue& value, const std::string& what) const;

 private:
  std::string_view Member(const std::string& name) const;
  std::string where_, bytes_;
  std::vector<ZipView> members_;
  std::string stem_;
  Pickle pickle_;
};

}  // namespace so4cal
