// SPDX-License-Identifier: Apache-2.0
#include "lib/fold_values.h"

#include <algorithm>

#include "lib/error.h"

namespace so4cal {
namespace {

// c = a b with a [n, n], b and c [n, columns]. Sums run over k upwards: the same bits however rows are cut.
void Multiply(std::span<const double> a, std::span<const double> b, std::size_t n, std::span<double> c) {
  const std::size_t columns = b.size() / n;
  std::fill(c.begin(), c.end(), 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k) {
      const double factor = a[i * n + k];
      const double* in = b.data() + k * columns;
      double* out = c.data() + i * columns;
      for (std::size_t j = 0; j < columns; ++j) out[j] += factor * in[j];
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
  const std::size_t n = folds[0].head_dim, group = query_heads / folds.size();
  std::vector<double> in(n);
  for (std::size_t at = 0; at < w_o.size(); at += n) {
    const std::vector<double>& b = folds[at / n % query_heads / group].out_of_o;
    double* out = w_o.data() + at;
    std::copy_n(out, n, in.begin());
    std::fill_n(out, n, 0.0);
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) out[j] += in[k] * b[k * n + j];
  }
}

std::vector<double> OffsetThroughRows(std::span<const ValueFold> folds, std::size_t query_heads,
                                      std::span<const double> w_o) {
  CheckRows(folds, query_heads, w_o.size());
  const std::size_t n = folds[0].head_dim, group = query_heads / folds.size(), columns = query_heads * n;
  std::vector<double> sums(w_o.size() / columns, 0.0);
  for (std::size_t i = 0; i < w_o.size(); ++i) {
    const std::vector<double>& offset = folds[i % columns / n / group].offset;
    if (!offset.empty()) sums[i / columns] += w_o[i] * offset[i % n];
  }
  return sums;
}

}  // namespace so4cal
