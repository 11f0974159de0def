// SPDX-License-Identifier: Apache-2.0
#include "lib/head_table.h"

#include <cmath>
#include <string>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr Named<Rounding> kRoundings[] = {
    {Rounding::kNearest, "nearest", "each coordinate to its nearest level"},
    {Rounding::kFeedback, "feedback", "errors are pushed on to later coordinates under the head's metric"},
    {Rounding::kRefined, "refined", "feedback, then rounds of joint scales and coordinate sweeps"},
};
constexpr Named<Chosen> kChosen[] = {
    {Chosen::kIdentity, "identity", "no rotation"},
    {Chosen::kHadamard, "hadamard", "the start of the fit"},
    {Chosen::kFitted, "fitted", "the fitted rotation"},
    {Chosen::kDense, "dense", "an imported matrix"},
};

void CheckMetric(const std::vector<float>& metric, std::size_t n) {
  if (metric.size() != n * n)
    throw Error("metric has " + std::to_string(metric.size()) +
                " values, expected head_dim^2 = " + std::to_string(n * n));
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += metric[i * n + i];
  if (!(trace > 0) || !std::isfinite(trace))
    throw Error("metric has the trace " + std::to_string(trace) + ", expected a positive finite number");
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      if (!(std::abs(metric[i * n + j] - metric[j * n + i]) <= 1e-4 * trace))  // NaN and Inf fail too
        throw Error("metric is not symmetric and finite at row " + std::to_string(i) + ", column " +
                    std::to_string(j));
}

}  // namespace

std::span<const Named<Rounding>> Roundings() { return kRoundings; }
std::span<const Named<Chosen>> ChosenNames() { return kChosen; }

void HeadTable::Check() const {
  transform.Check();
  NameOf(ChosenNames(), chosen);
  NameOf(Roundings(), rounding);
  if ((chosen == Chosen::kDense) != !transform.dense.empty())
    throw Error("chosen is '" + std::string(NameOf(ChosenNames(), chosen)) + "' but the head has " +
                (transform.dense.empty() ? "no" : "a") + " dense rotation");
  if (rounds < 0 || rounds > kMaxRounds)
    throw Error("rounds is " + std::to_string(rounds) + ", expected 0 to " + std::to_string(kMaxRounds));
  if (rounds != 0 && rounding != Rounding::kRefined)
    throw Error("rounds is " + std::to_string(rounds) + ", expected 0 unless rounding is 'refined'");
  if (!(damping >= 0 && damping <= kMaxDamping))
    throw Error("damping is " + std::to_string(damping) + ", expected 0 to " + std::to_string(kMaxDamping));
  if (rounding == Rounding::kNearest) {
    if (!metric.empty()) throw Error("nearest rounding has no use for a metric: leave it out");
    if (damping != 0)
      throw Error("damping is " + std::to_string(damping) + ", expected 0 with nearest rounding");
    return;
  }
  CheckMetric(metric, static_cast<std::size_t>(transform.head_dim));
}

HeadTransform HeadTable::Effective() const {
  if (chosen != Chosen::kIdentity) return transform;
  HeadTransform identity;
  identity.head_dim = transform.head_dim;
  identity.offset = transform.offset;
  return identity;
}

}  // namespace so4cal
