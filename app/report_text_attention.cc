// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <map>
#include <string>

#include "app/report.h"

namespace so4cal {
namespace {

constexpr char kIntro[] =
    "Attention on the test tokens: none | hadam+o | calibr of every figure. Logit NMSE: of q.k without what "
    "is\n"
    "constant over keys, queries and keys of the test tokens. KL (nats) of attention and output error after "
    "W_O:\n"
    "queries of the test tokens, all earlier keys of their sequence (fit tokens included) stored but the "
    "sinks.\n"
    "On a k line only keys are stored, on a v line only values, on a kv line both. top1%: of calibr.\n";

// Three significant digits in eight columns.
std::string Small(double value) {
  if (!std::isfinite(value)) return fmt::format("{:>9}", "-");
  if (value != 0 && value < 0.001) return fmt::format("{:>9.2e}", value);
  return fmt::format("{:>9.5f}", value);
}

std::string AttentionColumns(const BaselineErrors& errors, const AttentionReport& attention,
                             StoredSides stored) {
  std::string text;
  for (const char* key : {"logit_nmse", "attention_kl", "output_nmse_wo"}) {
    for (const Baseline baseline : {Baseline::kNone, Baseline::kHadamardOffset, Baseline::kCalibrated})
      text += Small(FigureOf(key, errors, attention, baseline, stored));
    text += " |";
  }
  const double top1 = 100 * FigureOf("attention_top1", errors, attention, Baseline::kCalibrated, stored);
  return text + (std::isfinite(top1) ? fmt::format("{:>6.1f}", top1) : fmt::format("{:>6}", "-"));
}

bool HasFigures(const Report& report) {
  for (const HeadReport& head : report.heads)
    if (head.attention.baselines[0].logit_energy > 0) return true;
  return false;
}

std::string Table(const Report& report) {
  std::string text = kIntro;
  text += fmt::format("\nlayer    head{:^27} |{:^27} |{:^27} |{:>6}\n", "logit NMSE", "attention KL",
                      "output error", "top1%");
  for (const HeadReport& head : report.heads)
    text += fmt::format("{:>5} {:<2} {:>3}{}\n", head.layer, SideName(head.side), head.head,
                        AttentionColumns(head.errors, head.attention, StoredOf(head.side)));
  text += "\nlayers, pooled\n";
  for (const LayerReport& layer : report.layers)
    for (const StoredSides stored : kStoredSides) {
      const PooledReport& pool = layer.pools[static_cast<std::size_t>(stored)];
      text += fmt::format("{:>5} {:<2}    {}\n", layer.layer, StoredName(stored),
                          AttentionColumns(pool.errors, pool.attention, stored));
    }
  for (const StoredSides stored : kStoredSides) {
    const PooledReport& pool = report.pools[static_cast<std::size_t>(stored)];
    text += fmt::format("model {:<2}    {}\n", StoredName(stored),
                        AttentionColumns(pool.errors, pool.attention, stored));
  }
  return text + '\n';
}

std::string_view MetricOf(const Report& report, const HeadReport& head) {
  const SideTable& side = report.table->FindLayer(head.layer)->side(head.side);
  return DecisionMetric(side.outcomes[static_cast<std::size_t>(head.head)].objective);
}

std::string Verdicts(const Report& report) {
  std::string text =
      "What the rotation did: calibr / hadam+o, 95 % interval by bootstrap over 32 runs of test tokens; "
      "headroom:\n"
      "dB above the error of independent normal values with the same bits, block, grid and scale.\n"
      "layer    head  metric          ratio  interval           verdict        headroom dB\n";
  std::map<std::string, int> counts;
  for (const HeadReport& head : report.heads) {
    const std::string_view metric = MetricOf(report, head);
    text += fmt::format("{:>5} {:<2} {:>3}  {:<14}", head.layer, SideName(head.side), head.head, metric);
    if (head.verdict) {
      const RatioInterval& r = head.verdict->interval;
      text += fmt::format("{:>7.4f}  [{:.4f}, {:.4f}]  {:<14}", r.ratio, r.low, r.high, head.verdict->name());
      ++counts[std::string(head.verdict->name())];
    } else {
      text += fmt::format("{:>7}  {:<16}  {:<14}", "-", "-", "not measured");
      ++counts["not measured"];
    }
    text += std::isfinite(head.headroom_db) ? fmt::format("{:>8.2f}\n", head.headroom_db) : "       -\n";
  }
  std::string sum;
  for (const auto& [verdict, count] : counts)
    sum += fmt::format("{}{}: {}", sum.empty() ? "" : ", ", verdict, count);
  return text + sum + " of " + std::to_string(report.heads.size()) + " heads\n";
}

}  // namespace

std::string AttentionText(const Report& report) {
  std::string text = HasFigures(report) ? Table(report) : "";
  text += Verdicts(report);
  for (const std::string& note : report.notes) text += "not measured: " + note + '\n';
  return text;
}

}  // namespace so4cal
