// SPDX-License-Identifier: Apache-2.0
// Per-target include guard: this header is compiled once per instruction set.
#if defined(SO4CAL_TESTS_BENCH_F16_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SO4CAL_TESTS_BENCH_F16_ATTENTION_INL_H_
#undef SO4CAL_TESTS_BENCH_F16_ATTENTION_INL_H_
#else
#define SO4CAL_TESTS_BENCH_F16_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace so4cal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadHalf(D d, const std::uint16_t* p) {
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
}

// scores[j][t], four rows at a time: one accumulator per row and query keeps the adders busy.
void ScoresKernel(const std::uint16_t* keys, size_t num_rows, size_t dim, const float* q, size_t num_queries,
                  float* scores) {
  const hn::CappedTag<float, 16> d;
  for (size_t t = 0; t < num_rows; ++t)
    for (size_t j = 0; j < num_queries; ++j) {
      auto a = hn::Zero(d), b = a;
      for (size_t c = 0; c < dim; c += 2 * hn::Lanes(d)) {
        a = hn::MulAdd(LoadHalf(d, keys + t * dim + c), hn::LoadU(d, q + j * dim + c), a);
        b = hn::MulAdd(LoadHalf(d, keys + t * dim + c + hn::Lanes(d)),
                       hn::LoadU(d, q + j * dim + c + hn::Lanes(d)), b);
      }
      scores[j * num_rows + t] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
    }
}

void ValuesKernel(const std::uint16_t* values, size_t num_rows, size_t dim, float* scores, size_t num_queries,
                  float* out) {
  const hn::CappedTag<float, 16> d;
  for (size_t j = 0; j < num_queries; ++j) {
    float* weights = scores + j * num_rows;
    const float top = *std::max_element(weights, weights + num_rows);
    auto sum = hn::Zero(d);
    for (size_t t = 0; t < num_rows; t += hn::Lanes(d)) {
      const auto w = hn::Exp(d, hn::Sub(hn::LoadU(d, weights + t), hn::Set(d, top)));
      hn::StoreU(w, d, weights + t);
      sum = hn::Add(sum, w);
    }
    const auto norm = hn::Set(d, 1 / hn::GetLane(hn::SumOfLanes(d, sum)));
    for (size_t t = 0; t < num_rows; t += hn::Lanes(d))
      hn::StoreU(hn::Mul(hn::LoadU(d, weights + t), norm), d, weights + t);
  }
  std::fill_n(out, num_queries * dim, 0.0f);
  constexpr size_t kPiece = 64;  // rows that stay in the first cache while all queries pass over them
  for (size_t first = 0; first < num_rows; first += kPiece)
    for (size_t j = 0; j < num_queries; ++j)
      for (size_t c = 0; c < dim; c += hn::Lanes(d)) {
        auto s = hn::LoadU(d, out + j * dim + c);
        for (size_t t = first; t < std::min(first + kPiece, num_rows); ++t)
          s = hn::MulAdd(LoadHalf(d, values + t * dim + c), hn::Set(d, scores[j * num_rows + t]), s);
        hn::StoreU(s, d, out + j * dim + c);
      }
}

}  // namespace HWY_NAMESPACE
}  // namespace so4cal
HWY_AFTER_NAMESPACE();
#endif
