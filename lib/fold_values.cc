// SPDX-License-Identifier: Apache-2.0
#include "lib/fold_values.h"

#include <algorithm>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr std::size_t kPanel = 8;  // columns at a time: sums in registers, the panel of b in the first cache

// c = a b with a [rows, n], b [n, columns]. Each sum runs over k upwards: the same bits however a matrix is
// cut.
void Multiply(std::span<const double> a, std::span<const double> b, std::size_t n, std::span<double> c) {
  const std::size_t rows = a.size() / n, columns = b.size() / n;
  std::vector<double> panel(n * kPanel, 0.0);  // what the last one has too many stays zero or is not stored
  for (std::size_t first = 0; first < columns; first += kPanel) {
    const std::size_t width = std::min(kPanel, columns - first);
    for (std::size_t k = 0; k < n; ++k)
      std::copy_n(b.data() + k * columns + first, width, panel.data() + k * kPanel);
    for (std::size_t i = 0; i < rows; ++i) {
      double sums[kPanel] = {};
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t j = 0; j < kPanel; ++j) sums[j] += a[i * n + k] * panel[k * kPanel + j];
      std::copy_n(sums, width, c.data() + i * columns + first);
    }
  }
}

std::vector<double> Transposed(std::span<const double> a, std::size_t n) {
  std::vector<double> t(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) t[j * n + i] = a[i * n + j];
  return t;
}

void CheckRows(std::span<const ValueFold> folds, std::size_t query_heads, std::size_t size) {
  SO4CAL_CHECK(!folds.empty() && query_heads % folds.size() == 0);
  SO4CAL_CHECK(size % (query_heads * folds[0].head_dim) == 0);
}

}  // namespace

ValueFold MakeValueFold(const HeadTransform& map, std::span<const double> engine_rotation) {
  const auto n = static_cast<std::size_t>(map.head_dim);
  SO4CAL_CHECK(engine_rotation.size() == n * n);
  const std::vector<double> u = DenseMatrix(map), f_inverse = Transposed(engine_rotation, n);
  ValueFold fold;
  fold.into_v.resize(n * n);
  Multiply(f_inverse, u, n, fold.into_v);
  fold.out_of_o = Transposed(fold.into_v, n);  // U^T F = (F^-1 U)^T, F being orthogonal
  fold.head_dim = n;
  fold.offset.assign(map.offset.begin(), map.offset.end());
  return fold;
}

void FoldValueHead(const ValueFold& fold, std::span<double> w_v) {
  const std::vector<double> original(w_v.begin(), w_v.end());
  Multiply(fold.into_v, original, fold.head_dim, w_v);
}

void FoldValueBias(const ValueFold& fold, std::span<double> b_v) {
  SO4CAL_CHECK(b_v.size() == fold.head_dim);
  for (std::size_t i = 0; i < fold.offset.size(); ++i) b_v[i] -= fold.offset[i];
  FoldValueHead(fold, b_v);
}

void FoldOutputRows(std::span<const ValueFold> folds, std::size_t query_heads, std::span<double> w_o) {
  CheckRows(folds, query_heads, w_o.size());
  const std::size_t n = folds[0].head_dim, group = query_heads / folds.size(), columns = query_heads * n;
  std::vector<double> in(w_o.size() / query_heads), out(in.size());  // the columns of one query head
  for (std::size_t head = 0; head < query_heads; ++head) {
    double* const first = w_o.data() + head * n;
    for (std::size_t at = 0; at < in.size(); at += n)
      std::copy_n(first + at / n * columns, n, in.data() + at);
    Multiply(in, folds[head / group].out_of_o, n, out);
    for (std::size_t at = 0; at < in.size(); at += n)
      std::copy_n(out.data() + at, n, first + at / n * columns);
  }
}

std::vector<double> OffsetThroughRows(std::span<const ValueFold> folds, std::size_t query_heads,
                                      std::span<const double> w_o) {
  CheckRows(folds, query_heads, w_o.size());
  const std::size_t n = folds[0].head_dim, group = query_heads / folds.size(), columns = query_heads * n;
  std::vector<double> sums(w_o.size() / columns, 0.0);
  for (std::size_t at = 0; at < w_o.size(); at += n) {
    const std::vector<double>& offset = folds[at % columns / n / group].offset;
    for (std::size_t i = 0; i < offset.size(); ++i) sums[at / columns] += w_o[at + i] * offset[i];
  }
  return sums;
}

}  // namespace so4cal
