// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_file.h"

#include <algorithm>

#include "formats/byte_writer.h"
#include "formats/element_types.h"
#include "lib/error.h"

namespace so4cal {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kPickleName = "/data.pkl";

struct Storage {
  std::string_view name;
  ElementType type;
};
constexpr Storage kStorages[] = {{"torch.FloatStorage", ElementType::kF32},
                                 {"torch.DoubleStorage", ElementType::kF64},
                                 {"torch.HalfStorage", ElementType::kF16},
                                 {"torch.BFloat16Storage", ElementType::kBf16}};

// "archive" of "archive/data.pkl".
std::string FindStem(const std::vector<ZipView>& members, const std::string& where) {
  for (const ZipView& member : members)
    if (member.name.size() > kPickleName.size() && member.name.ends_with(kPickleName))
      return std::string(member.name.substr(0, member.name.size() - kPickleName.size()));
  throw Error(where + ": a zip archive, but not one of torch.save: it has no data.pkl");
}

std::uint64_t Unsigned(const PickleValue& value) {
  return value.kind == Kind::kInt && value.integer >= 0 ? static_cast<std::uint64_t>(value.integer)
                                                        : ~std::uint64_t{0};  // beyond every storage
}

// Where each value of a row-major walk lies in the storage. False when one is outside.
bool WalkStrides(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides,
                 std::uint64_t offset, std::uint64_t storage_size, std::vector<std::uint64_t>& places) {
  std::uint64_t count = 1, last = offset;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(count, shape[i], &count) || shape[i] == 0 ||
        __builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  // Strides of 0 would let a small file claim any size.
  if (last >= storage_size || count > storage_size) return false;
  places.resize(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t rest = i, place = offset;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      place += rest % shape[axis] * strides[axis];
    places[i] = place;
  }
  return true;
}

}  // namespace

void TorchWriter::Tensor(std::span<const std::uint64_t> shape, std::span<const float> values) {
  pickle_.Global("torch._utils", "_rebuild_tensor_v2");
  pickle_.BeginTuple();
  pickle_.BeginTuple();
  pickle_.Text("storage");
  pickle_.Global("torch", "FloatStorage");
  pickle_.Text(std::to_string(storages_.size()));
  pickle_.Text("cpu");
  pickle_.Integer(values.size());
  pickle_.EndTuple();
  pickle_.PersistentId();
  pickle_.Integer(0);  // offset in the storage
  pickle_.BeginTuple();
  for (const std::uint64_t extent : shape) pickle_.Integer(extent);
  pickle_.EndTuple();
  pickle_.BeginTuple();
  std::uint64_t stride = values.size();
  for (const std::uint64_t extent : shape) pickle_.Integer(stride /= extent);
  pickle_.EndTuple();
  SO4CAL_CHECK(stride == 1);
  pickle_.Bool(false);  // requires_grad
  pickle_.Global("collections", "OrderedDict");
  pickle_.BeginTuple();
  pickle_.EndTuple();
  pickle_.Call();
  pickle_.EndTuple();
  pickle_.Call();
  storages_.emplace_back();
  AppendLittleEndian(storages_.back(), values);
}

std::string TorchWriter::Finish(const std::string& stem, const std::string& where) && {
  std::vector<ZipMember> members = {{stem + std::string(kPickleName), std::move(pickle_).Finish()},
                                    {stem + "/byteorder", "little"}};
  for (std::size_t i = 0; i < storages_.size(); ++i)
    members.push_back({stem + "/data/" + std::to_string(i), std::move(storages_[i])});
  members.push_back({stem + "/version", "3\n"});
  return SerializeZip(members, where);
}

TorchFile::TorchFile(std::string bytes, std::string where)
    : where_(std::move(where)),
      bytes_(std::move(bytes)),
      members_(ParseZip(bytes_, where_)),
      stem_(FindStem(members_, where_)),
      pickle_(Member("data.pkl"), where_) {
  const auto order = std::find_if(members_.begin(), members_.end(),
                                  [&](const ZipView& m) { return m.name == stem_ + "/byteorder"; });
  if (order != members_.end() && order->bytes != "little")
    throw Error(where_ + ": its byte order is '" + std::string(order->bytes.substr(0, 16)) +
                "', expected little: save it again on another machine");
}

std::string_view TorchFile::Member(const std::string& name) const {
  for (const ZipView& member : members_)
    if (member.name == stem_ + "/" + name) return member.bytes;
  throw Error(where_ + ": has no member '" + name + "'");
}

TorchTensor TorchFile::Tensor(const PickleValue& value, const std::string& what) const {
  const auto refuse = [&](const std::string& reason) -> Error {
    return Error(where_ + ": " + what + " " + reason);
  };
  if (value.kind != Kind::kCall || value.text != "torch._utils._rebuild_tensor_v2" ||
      value.items[0]->items.size() < 4)
    throw refuse("is no tensor");
  const auto& arguments = value.items[0]->items;
  const PickleValue &id = *arguments[0], &shape = *arguments[2], &strides = *arguments[3];
  if (id.kind != Kind::kPersistent || id.items[0]->kind != Kind::kTuple || id.items[0]->items.size() != 5 ||
      shape.kind != Kind::kTuple || strides.kind != Kind::kTuple ||
      shape.items.size() != strides.items.size())
    throw refuse("is a tensor with an unknown layout");
  const auto& storage_id = id.items[0]->items;
  const auto storage = std::find_if(std::begin(kStorages), std::end(kStorages),
                                    [&](const Storage& s) { return s.name == storage_id[1]->text; });
  if (storage == std::end(kStorages) || storage_id[2]->kind != Kind::kText)
    throw refuse("has another type than f64, f32, f16 or bf16");
  const std::string_view data = Member("data/" + storage_id[2]->text);
  TorchTensor tensor;
  std::vector<std::uint64_t> steps, places;
  for (const PickleValue* extent : shape.items) tensor.shape.push_back(Unsigned(*extent));
  for (const PickleValue* step : strides.items) steps.push_back(Unsigned(*step));
  const std::uint64_t element = ElementBytes(storage->type);
  if (!WalkStrides(tensor.shape, steps, Unsigned(*arguments[1]), data.size() / element, places))
    throw refuse("lies outside its storage of " + std::to_string(data.size()) + " bytes");
  for (const std::uint64_t place : places)
    tensor.values.push_back(static_cast<float>(LoadElement(storage->type, data.data() + place * element)));
  return tensor;
}

}  // namespace so4cal
