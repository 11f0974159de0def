// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace so4cal {

// The values of Python's pickle that torch.save needs for dictionaries of numbers, texts and tensors. A
// pickle is a program; here nothing of it is run: a call becomes a kCall value with the name and the
// arguments, and names outside a short list are refused.
struct PickleValue {
  enum class Kind { kNone, kBool, kInt, kFloat, kText, kTuple, kList, kDict, kGlobal, kPersistent, kCall };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // kBool, kInt
  double number = 0;         // kFloat
  std::string text;          // kText; kGlobal and kCall: "module.name"
  // kTuple, kList: the values; kDict: key, value, key, value, ...; kPersistent: the id; kCall: the arguments
  // (a tuple)
  std::vector<const PickleValue*> items;

  // Value of a dictionary by key; nullptr when it is none or has no such key.
  const PickleValue* Find(std::string_view key) const;
};

// Owns all values of one pickle.
class Pickle {
 public:
  // Throws Error that starts with `where` on opcodes and names that torch.save does not write for such data.
  Pickle(std::string_view bytes, const std::string& where);
  const PickleValue& root() const { return *root_; }

 private:
  friend class Unpickler;
  std::vector<std::unique_ptr<PickleValue>> values_;
  const PickleValue* root_ = nullptr;
};

// Protocol 2, what torch.load reads with weights_only=True. Values are written one after the other, in
// Python's order.
class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}
  void BeginDict() { bytes_ += "}("; }  // then key, value, key, value, ...
  void EndDict() { bytes_ += 'u'; }
  void BeginTuple() { bytes_ += '('; }
  void EndTuple() { bytes_ += 't'; }
  void Text(std::string_view text);
  void Integer(std::uint64_t value);
  void Bool(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void Global(std::string_view module, std::string_view name);
  void Call() { bytes_ += 'R'; }          // of a global with a tuple of arguments
  void PersistentId() { bytes_ += 'Q'; }  // of the value before
  std::string Finish() && { return std::move(bytes_ += '.'); }

 private:
  std::string bytes_;
};

}  // namespace so4cal
