// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/transform.h"

namespace so4cal {

// Folds the map z = U (v - mu) of a KV head's values into the projections around attention, in double. The
// engine rotates what it caches by F (identity if it does not), so that its cache holds F F^-1 z = z:
//   W_V[h] <- F^-1 U W_V[h]    b_V[h] <- F^-1 U (b_V[h] - mu)    W_O,j <- W_O,j U^T F    b_O += sum_j W_O,j
//   mu_g(j)
// for the query heads j of the group g(j) = j / (Hq / Hkv). The last one needs attention weights that sum to
// one. Matrices are row-major, [outputs, inputs].
struct ValueFold {
  std::vector<double> into_v;    // F^-1 U, [D, D]
  std::vector<double> out_of_o;  // U^T F, [D, D]
  std::vector<double> offset;    // mu, [D]; empty: zero
  std::size_t head_dim = 0;      // D
};

// engine_rotation: F, [D, D], orthogonal.
ValueFold MakeValueFold(const HeadTransform& map, std::span<const double> engine_rotation);

// The rows of one KV head, [D, columns], and its part of the bias, [D].
void FoldValueHead(const ValueFold& fold, std::span<double> w_v);
void FoldValueBias(const ValueFold& fold, std::span<double> b_v);

// Any number of rows of the output projection, [rows, Hq * D]; Hq is a multiple of the number of folds, one
// per KV head.
void FoldOutputRows(std::span<const ValueFold> folds, std::size_t query_heads, std::span<double> w_o);

// What the offsets add to the bias of each of these rows: sum_j W_O,j mu_g(j) with W_O as it was before the
// fold.
std::vector<double> OffsetThroughRows(std::span<const ValueFold> folds, std::size_t query_heads,
                                      std::span<const double> w_o);

}  // namespace so4cal
