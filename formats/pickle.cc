// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle.h"

#include <algorithm>
#include <bit>
#include <map>

#include "formats/byte_writer.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using Kind = PickleValue::Kind;

// Names that torch.save writes for tensors in dictionaries. Everything else may be a call of anything.
constexpr std::string_view kNames[] = {
    "collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage", "torch.DoubleStorage",
    "torch.HalfStorage",       "torch.BFloat16Storage",
};

}  // namespace

// The stack machine of Python's pickletools, without running anything.
class Unpickler {
 public:
  Unpickler(Pickle& pickle, std::string_view bytes, const std::string& where)
      : pickle_(pickle), bytes_(bytes), where_(where) {}

  const PickleValue* Run() {
    for (;;) {
      const char code = Take(1)[0];
      if (code == '.') return Pop();
      if (!Atom(code) && !Container(code) && !Memo(code) && !Reference(code))
        Fail("opcode " + std::to_string(static_cast<unsigned char>(code)) +
             " is not one that torch.save writes for rotations");
    }
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(where_ + ": pickle, byte " + std::to_string(at_) + ": " + what);
  }

  std::string_view Take(std::uint64_t count) {
    if (count > bytes_.size() - at_) Fail("truncated");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T Number() {
    return LoadLittleEndian<T>(Take(sizeof(T)).data());
  }
  std::string Line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) Fail("truncated");
    std::string line(Take(end - at_));
    Take(1);
    return line;
  }

  PickleValue& Push(Kind kind) {
    pickle_.values_.push_back(std::make_unique<PickleValue>());
    PickleValue& value = *pickle_.values_.back();
    value.kind = kind;
    stack_.push_back(&value);
    return value;
  }
  PickleValue* Pop() {
    if (stack_.empty() || stack_.back() == nullptr) Fail("takes a value that is not there");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  // All values above the last mark, and the mark.
  std::vector<const PickleValue*> PopToMark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), nullptr);
    if (mark == stack_.rend()) Fail("has no mark");
    std::vector<const PickleValue*> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }
  PickleValue& Top(Kind kind, const char* what) {
    if (stack_.empty() || stack_.back() == nullptr || stack_.back()->kind != kind)
      Fail("the stack has no " + std::string(what));
    return *stack_.back();
  }

  bool Atom(char code) {
    switch (code) {
      case '\x80':
        Take(1);
        return true;  // protocol
      case 'N':
        Push(Kind::kNone);
        return true;
      case '\x88':
        Push(Kind::kBool).integer = 1;
        return true;
      case '\x89':
        Push(Kind::kBool);
        return true;
      case 'K':
        Push(Kind::kInt).integer = Number<std::uint8_t>();
        return true;
      case 'M':
        Push(Kind::kInt).integer = Number<std::uint16_t>();
        return true;
      case 'J':
        Push(Kind::kInt).integer = Number<std::int32_t>();
        return true;
      case '\x8a':
        Push(Kind::kInt).integer = Long();
        return true;
      case 'G':
        Push(Kind::kFloat).number = BigEndianDouble();
        return true;
      case 'X':
        Push(Kind::kText).text = Take(Number<std::uint32_t>());
        return true;
      case 'U':
        Push(Kind::kText).text = Take(Number<std::uint8_t>());
        return true;
      default:
        return false;
    }
  }
  // Two's complement of up to 8 bytes.
  std::int64_t Long() {
    const auto count = Number<std::uint8_t>();
    if (count > 8) Fail("an integer of more than 64 bits");
    const std::string_view bytes = Take(count);
    std::uint64_t value = count > 0 && (bytes.back() & 0x80) ? ~std::uint64_t{0} : 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return static_cast<std::int64_t>(value);
  }
  double BigEndianDouble() {
    std::string bytes(Take(8));
    std::reverse(bytes.begin(), bytes.end());
    return LoadLittleEndian<double>(bytes.data());
  }

  bool Container(char code) {
    switch (code) {
      case '(':
        stack_.push_back(nullptr);
        return true;
      case '}':
        Push(Kind::kDict);
        return true;
      case ']':
        Push(Kind::kList);
        return true;
      case ')':
        Push(Kind::kTuple);
        return true;
      case 't':
        PushTuple(PopToMark());
        return true;
      case '\x85':
      case '\x86':
      case '\x87':
        PopTuple(code - '\x84');
        return true;
      case 's':
      case 'u':
        SetItems(code == 's');
        return true;
      case 'a':
      case 'e':
        Append(code == 'a');
        return true;
      default:
        return false;
    }
  }
  void PushTuple(std::vector<const PickleValue*> items) { Push(Kind::kTuple).items = std::move(items); }
  void PopTuple(int count) {
    std::vector<const PickleValue*> items(static_cast<std::size_t>(count));
    for (std::size_t i = items.size(); i-- > 0;) items[i] = Pop();
    PushTuple(std::move(items));
  }
  void SetItems(bool one) {
    std::vector<const PickleValue*> items;
    if (one) {
      const PickleValue *value = Pop(), *key = Pop();
      items = {key, value};
    } else {
      items = PopToMark();
    }
    if (items.size() % 2 != 0) Fail("a key without a value");
    PickleValue& dict = Top(Kind::kDict, "a dictionary");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }
  void Append(bool one) {
    const auto items = one ? std::vector<const PickleValue*>{Pop()} : PopToMark();
    PickleValue& list = Top(Kind::kList, "a list");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }

  bool Memo(char code) {
    switch (code) {
      case 'q':
        Remember(Number<std::uint8_t>());
        return true;
      case 'r':
        Remember(Number<std::uint32_t>());
        return true;
      case 'h':
        Recall(Number<std::uint8_t>());
        return true;
      case 'j':
        Recall(Number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }
  void Remember(std::uint32_t slot) {
    if (stack_.empty() || stack_.back() == nullptr) Fail("remembers nothing");
    memo_[slot] = stack_.back();
  }
  void Recall(std::uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) Fail("recalls what it did not remember");
    stack_.push_back(found->second);
  }

  bool Reference(char code) {
    switch (code) {
      case 'c':
        Global();
        return true;
      case 'R':
        Call();
        return true;
      case 'Q': {
        const PickleValue* id = Pop();
        Push(Kind::kPersistent).items = {id};
        return true;
      }
      default:
        return false;
    }
  }
  void Global() {
    std::string name = Line();
    name.append(".").append(Line());
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames))
      Fail("names '" + name + "', which no file of rotations needs: refused");
    Push(Kind::kGlobal).text = name;
  }
  void Call() {
    const PickleValue *arguments = Pop(), *function = Pop();
    if (function->kind != Kind::kGlobal || arguments->kind != Kind::kTuple) Fail("calls what is no function");
    if (function->text == "collections.OrderedDict" && arguments->items.empty()) {
      Push(Kind::kDict);
    } else {
      PickleValue& call = Push(Kind::kCall);
      call.text = function->text;
      call.items = {arguments};
    }
  }

  Pickle& pickle_;
  std::string_view bytes_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::vector<PickleValue*> stack_;  // nullptr: a mark
  std::map<std::uint32_t, PickleValue*> memo_;
};

const PickleValue* PickleValue::Find(std::string_view key) const {
  const PickleValue* found = nullptr;  // the last one counts, as in Python
  for (std::size_t i = 0; kind == Kind::kDict && i + 1 < items.size(); i += 2)
    if (items[i]->kind == Kind::kText && items[i]->text == key) found = items[i + 1];
  return found;
}

Pickle::Pickle(std::string_view bytes, const std::string& where) {
  root_ = Unpickler(*this, bytes, where).Run();
}

void PickleWriter::Text(std::string_view text) {
  bytes_ += 'X';
  AppendLittleEndian(bytes_, static_cast<std::uint32_t>(text.size()));
  bytes_ += text;
}

// The shortest opcode, as Python's own pickler chooses.
void PickleWriter::Integer(std::uint64_t value) {
  if (value <= 0xFF) {
    bytes_ += 'K';
    AppendLittleEndian(bytes_, static_cast<std::uint8_t>(value));
  } else if (value <= 0xFFFF) {
    bytes_ += 'M';
    AppendLittleEndian(bytes_, static_cast<std::uint16_t>(value));
  } else if (value <= 0x7FFFFFFF) {
    bytes_ += 'J';
    AppendLittleEndian(bytes_, static_cast<std::uint32_t>(value));
  } else {
    SO4CAL_CHECK(value >> 63 == 0);
    bytes_ += "\x8a\x08";
    AppendLittleEndian(bytes_, value);
  }
}

void PickleWriter::Global(std::string_view module, std::string_view name) {
  bytes_.append("c").append(module).append("\n").append(name).append("\n");
}

}  // namespace so4cal
