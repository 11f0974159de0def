// SPDX-License-Identifier: Apache-2.0
#include "formats/recognize_blocks.h"

#include <cmath>
#include <vector>

#include "lib/error.h"

namespace so4cal {
namespace {

// U H^T = U H: what is left of U after the Hadamard transform.
std::vector<double> WithoutHadamard(std::span<const double> u, int head_dim) {
  HeadTransform hadamard;
  hadamard.head_dim = head_dim;
  hadamard.hadamard = true;
  const auto d = static_cast<std::size_t>(head_dim);
  std::vector<double> rest(u.size());
  for (std::size_t row = 0; row < d; ++row)  // H is symmetric: a row times H is H times the row
    ForwardExact(hadamard, u.subspan(row * d, d), std::span(rest).subspan(row * d, d));
  return rest;
}

double DistanceOf(const Matrix4& a, const Matrix4& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

std::optional<HeadTransform> RecognizeBlocks(std::span<const double> u, int head_dim, bool hadamard,
                                             double tolerance) {
  const auto d = static_cast<std::size_t>(head_dim);
  SO4CAL_CHECK(u.size() == d * d);
  const std::vector<double> b =
      hadamard ? WithoutHadamard(u, head_dim) : std::vector<double>(u.begin(), u.end());
  HeadTransform transform;
  transform.head_dim = head_dim;
  transform.hadamard = hadamard;
  transform.stages = {{1, {}}};
  for (std::size_t block = 0; block < d / 4; ++block) {
    Matrix4 m;
    for (std::size_t row = 0; row < 4; ++row)
      for (std::size_t column = 0; column < d; ++column) {
        const double value = b[(4 * block + row) * d + column];
        if (column / 4 == block)
          m[4 * row + column % 4] = value;
        else if (!(std::abs(value) <= tolerance))
          return {};
      }
    double norm = 0;
    for (const double value : m) norm += value * value;
    if (!(norm > 1)) return {};  // an orthogonal block has 4; NearestRotation throws on a zero matrix
    const So4 rotation = NearestRotation(m);
    if (!(DistanceOf(ToMatrix(rotation), m) <= tolerance)) return {};  // a reflection, or no rotation at all
    transform.stages[0].blocks.push_back(rotation);
  }
  return transform;
}

bool IsIdentity(std::span<const double> u, int head_dim, double tolerance) {
  const auto d = static_cast<std::size_t>(head_dim);
  for (std::size_t i = 0; i < u.size(); ++i)
    if (!(std::abs(u[i] - (i % (d + 1) == 0 ? 1 : 0)) <= tolerance)) return false;
  return true;
}

}  // namespace so4cal
