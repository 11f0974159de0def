// SPDX-License-Identifier: Apache-2.0
#include "calib/bit_plan.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr double kSlack = 1e-9;  // of a budget: 3.5 must allow 3.5

double Bits(const PlanItem& item, std::size_t choice) {
  return static_cast<double>(item.values_per_token) * item.choices[choice].codec.bits_per_value();
}

double Values(std::span<const PlanItem> items) {
  double values = 0;
  for (const PlanItem& item : items) values += static_cast<double>(item.values_per_token);
  return values;
}

double SumOfBits(std::span<const PlanItem> items, std::span<const std::size_t> chosen) {
  double bits = 0;
  for (std::size_t i = 0; i < items.size(); ++i) bits += Bits(items[i], chosen[i]);
  return bits;
}

std::size_t Cheapest(const PlanItem& item) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < item.choices.size(); ++c) {
    const double more = Bits(item, c) - Bits(item, best);
    if (more < 0 || (more == 0 && item.choices[c].error < item.choices[best].error)) best = c;
  }
  return best;
}

// The next corner of the lower convex hull: the most error saved per bit; `now` itself when nothing saves
// any.
std::size_t NextOnHull(const PlanItem& item, std::size_t now, double& gain) {
  std::size_t best = now;
  gain = 0;
  for (std::size_t c = 0; c < item.choices.size(); ++c) {
    const double saved = item.choices[now].error - item.choices[c].error;
    const double more = Bits(item, c) - Bits(item, now);
    if (!(saved > 0) || !(more > 0) || saved / more <= gain) continue;
    gain = saved / more;
    best = c;
  }
  return best;
}

// Steps along the hulls, best gain first, until nothing fits.
void ClimbHulls(std::span<const PlanItem> items, double budget_bits, std::vector<std::size_t>& chosen) {
  double used = SumOfBits(items, chosen);
  std::vector<bool> done(items.size(), false);
  for (;;) {
    std::size_t best_item = items.size(), best_choice = 0;
    double best_gain = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (done[i]) continue;
      double gain = 0;
      const std::size_t next = NextOnHull(items[i], chosen[i], gain);
      if (gain <= best_gain) continue;
      best_gain = gain;
      best_item = i;
      best_choice = next;
    }
    if (best_item == items.size()) return;
    const double more = Bits(items[best_item], best_choice) - Bits(items[best_item], chosen[best_item]);
    if (used + more > budget_bits) {
      done[best_item] = true;  // its next corner is too dear; others may still fit
      continue;
    }
    chosen[best_item] = best_choice;
    used += more;
  }
}

// What is left of the budget goes to whichever single change saves most, hull or not.
void SpendTheRest(std::span<const PlanItem> items, double budget_bits, std::vector<std::size_t>& chosen) {
  double left = budget_bits - SumOfBits(items, chosen);
  for (;;) {
    std::size_t best_item = items.size(), best_choice = 0;
    double best_saved = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
      for (std::size_t c = 0; c < items[i].choices.size(); ++c) {
        const double saved = items[i].choices[chosen[i]].error - items[i].choices[c].error;
        if (saved <= best_saved || Bits(items[i], c) - Bits(items[i], chosen[i]) > left) continue;
        best_saved = saved;
        best_item = i;
        best_choice = c;
      }
    if (best_item == items.size()) return;
    left -= Bits(items[best_item], best_choice) - Bits(items[best_item], chosen[best_item]);
    chosen[best_item] = best_choice;
  }
}

}  // namespace

double AverageBits(std::span<const PlanItem> items, std::span<const std::size_t> chosen) {
  return SumOfBits(items, chosen) / Values(items);
}

double TotalError(std::span<const PlanItem> items, std::span<const std::size_t> chosen) {
  double error = 0;
  for (std::size_t i = 0; i < items.size(); ++i) error += items[i].choices[chosen[i]].error;
  return error;
}

std::vector<std::size_t> ChooseBits(std::span<const PlanItem> items, double budget) {
  std::vector<std::size_t> chosen;
  for (const PlanItem& item : items) chosen.push_back(Cheapest(item));
  if (AverageBits(items, chosen) > budget + kSlack) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "--budget is %g bits per value, expected at least %.3f, which is 2 bits with the largest "
                  "blocks: raise it",
                  budget, std::ceil(1000 * AverageBits(items, chosen)) / 1000);
    throw Error(text);
  }
  const double budget_bits = (budget + kSlack) * Values(items);
  ClimbHulls(items, budget_bits, chosen);
  SpendTheRest(items, budget_bits, chosen);
  return chosen;
}

}  // namespace so4cal
