// SPDX-License-Identifier: Apache-2.0
#include "app/fold_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "app/parallel.h"
#include "formats/file_access.h"
#include "lib/error.h"
#include "lib/fold_values.h"

namespace so4cal {
namespace {

constexpr std::uint64_t kNumbersAtATime = std::uint64_t{1} << 18;  // 2 MiB of doubles

const SideTable& Values(const LayerFold& fold) { return fold.table->side(Side::kValue); }

bool HasOffset(const SideTable& side) {
  return std::any_of(side.heads.begin(), side.heads.end(), [](const HeadTable& head) {
    const std::vector<float>& offset = head.transform.offset;
    return std::any_of(offset.begin(), offset.end(), [](float v) { return v != 0; });
  });
}

void CheckShapes(const LayerFold& fold) {
  const SideTable& side = Values(fold);
  const std::uint64_t heads = side.heads.size(), head_dim = static_cast<std::uint64_t>(side.codec.head_dim);
  const WeightTensor &v = fold.weights.v, &o = fold.weights.o;
  if (v.rows != heads * head_dim)
    throw Error(
        fmt::format("tensor '{}' has {} rows, but the table {} KV heads of size {}, {} rows: is it the "
                    "model of the table?",
                    v.name, v.rows, heads, head_dim, heads * head_dim));
  if (o.columns == 0 || o.columns % (heads * head_dim) != 0)
    throw Error(
        fmt::format("tensor '{}' has {} columns, expected a multiple of the table's {} KV heads of size {}: "
                    "is it the model of the table?",
                    o.name, o.columns, heads, head_dim));
}

void CheckOffset(const LayerFold& fold) {
  const ValueWeights& weights = fold.weights;
  if (!HasOffset(Values(fold))) return;
  if (weights.sinks)  // sum_j W_O,j mu would be added whole, where attention adds a share of it
    throw Error(
        "the table has a value offset, and attention has sinks: its weights do not sum to one, so that no "
        "bias can take the offset: fit with --offset v=none");
  if (weights.v_bias && weights.o_bias) return;
  throw Error(
      fmt::format("the table has a value offset, but '{}' has no bias to take it: fit with --offset v=none",
                  weights.v_bias ? weights.o.name : weights.v.name));
}

LayerFold PlanLayer(const ModelFiles& model, const LayerTable& table, const EngineRotation& rotation) {
  LayerFold fold{&table, FindValueWeights(model, table.layer), 0};
  CheckShapes(fold);
  CheckOffset(fold);
  const int head_dim = Values(fold).codec.head_dim;
  EngineRotationMatrix(rotation, head_dim);  // throws where it does not fit
  fold.query_heads = fold.weights.o.columns / static_cast<std::uint64_t>(head_dim);
  return fold;
}

// A weight in the model and its place in the copy.
struct Rewrite {
  const WeightTensor& weight;
  FileAccess from, to;
  Rewrite(const WeightTensor& w, const PathOf& model, const PathOf& copy)
      : weight(w),
        from(model(w.file), FileAccess::Mode::kRead),
        to(copy(w.file), FileAccess::Mode::kOverwrite) {}

  std::vector<double> Load(std::uint64_t first, std::uint64_t count) const {
    return LoadNumbers(from, weight, first, count);
  }
  RoundingChange Store(std::uint64_t first, std::span<const double> numbers) const {
    const RoundingChange change = StoreNumbers(to, weight, first, numbers);
    return ElementBytes(weight.type) == 2 ? change : RoundingChange{};
  }
};

// work(0), ..., work(n - 1) on all cores; the sum in order, so that it is the same on any number of them.
template <class Work>
RoundingChange SumOver(std::size_t n, const Work& work) {
  std::vector<RoundingChange> parts(n);
  ParallelFor(n, [&](std::size_t i) { parts[i] = work(i); });
  RoundingChange sum;
  for (const RoundingChange& part : parts) sum.Add(part);
  return sum;
}

RoundingChange FoldValues(const std::vector<ValueFold>& heads, const Rewrite& v) {
  const std::uint64_t per_head = heads[0].head_dim * v.weight.columns;
  return SumOver(heads.size(), [&](std::size_t h) {
    std::vector<double> numbers = v.Load(h * per_head, per_head);
    FoldValueHead(heads[h], numbers);
    return v.Store(h * per_head, numbers);
  });
}

RoundingChange FoldBias(const std::vector<ValueFold>& heads, const Rewrite& bias) {
  const std::size_t n = heads[0].head_dim;
  std::vector<double> numbers = bias.Load(0, bias.weight.rows);
  for (std::size_t h = 0; h < heads.size(); ++h)
    FoldValueBias(heads[h], std::span(numbers).subspan(h * n, n));
  return bias.Store(0, numbers);
}

// Also adds to `through` what the offsets become behind the projection, one number per row.
RoundingChange FoldOutputs(const std::vector<ValueFold>& heads, std::size_t query_heads, const Rewrite& o,
                           std::vector<double>& through) {
  const std::uint64_t columns = o.weight.columns,
                      rows_at_a_time = std::max<std::uint64_t>(1, kNumbersAtATime / columns);
  through.resize(o.weight.rows);
  return SumOver((o.weight.rows + rows_at_a_time - 1) / rows_at_a_time, [&](std::size_t part) {
    const std::uint64_t row = part * rows_at_a_time, rows = std::min(rows_at_a_time, o.weight.rows - row);
    std::vector<double> numbers = o.Load(row * columns, rows * columns);
    const std::vector<double> sums = OffsetThroughRows(heads, query_heads, numbers);
    std::copy(sums.begin(), sums.end(), through.begin() + static_cast<std::ptrdiff_t>(row));
    FoldOutputRows(heads, query_heads, numbers);
    return o.Store(row * columns, numbers);
  });
}

RoundingChange AddToBias(const std::vector<double>& through, const Rewrite& bias) {
  std::vector<double> numbers = bias.Load(0, bias.weight.rows);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += through[i];
  return bias.Store(0, numbers);
}

}  // namespace

std::vector<LayerFold> PlanFold(const ModelFiles& model, const RotationTable& table,
                                const EngineRotation& rotation) {
  std::vector<LayerFold> folds;
  for (const LayerTable& layer : table.layers) try {
      folds.push_back(PlanLayer(model, layer, rotation));
    } catch (const Error& error) {
      throw Error(fmt::format("{}, layer {}: {}", model.folder.string(), layer.layer, error.what()));
    }
  return folds;
}

RoundingChange FoldLayer(const LayerFold& fold, const EngineRotation& rotation, const PathOf& model,
                         const PathOf& copy) {
  const SideTable& side = Values(fold);
  const std::vector<double> f = EngineRotationMatrix(rotation, side.codec.head_dim);
  std::vector<ValueFold> heads;
  for (const HeadTable& head : side.heads) heads.push_back(MakeValueFold(head.Effective(), f));
  std::vector<double> through;
  RoundingChange change = FoldValues(heads, {fold.weights.v, model, copy});
  change.Add(FoldOutputs(heads, fold.query_heads, {fold.weights.o, model, copy}, through));
  if (fold.weights.v_bias) change.Add(FoldBias(heads, {*fold.weights.v_bias, model, copy}));
  if (fold.weights.o_bias) change.Add(AddToBias(through, {*fold.weights.o_bias, model, copy}));
  return change;
}

}  // namespace so4cal
