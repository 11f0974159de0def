// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <string>

#include "app/layer_list.h"
#include "app/report.h"
#include "calib/split.h"

namespace so4cal {
namespace {

constexpr auto kCalibratedIndex = static_cast<std::size_t>(Baseline::kCalibrated);

std::string Number(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : std::string("-");
}

// Large and small errors keep four digits.
std::string Nmse(double value) {
  if (!std::isfinite(value)) return "-";
  return value != 0 && value < 0.001 ? fmt::format("{:.2e}", value) : fmt::format("{:.5f}", value);
}

std::string ErrorColumns(const BaselineErrors& errors) {
  std::string text;
  for (const BaselineError& error : errors) text += fmt::format("{:>9}", Nmse(error.distortion.nmse()));
  const BaselineError& calibrated = errors[kCalibratedIndex];
  const Distortion& d = calibrated.distortion;
  text += fmt::format(" |{:>9}{:>8}{:>8}", d.centred_energy > 0 ? Nmse(d.nmse_centred()) : "-",
                      Number(d.sqnr_db(), 2), Number(d.max_abs, 3));
  return text + (calibrated.blocks_improved ? fmt::format("{:>8.1f}", 100 * *calibrated.blocks_improved)
                                            : fmt::format("{:>8}", "-"));
}

// +o: with the table's offset; *: with nearest rounding.
std::string ColumnNames() {
  std::string text;
  for (const char* name : {"none", "hadamard", "hadam+o*", "hadam+o", "calibr*", "calibr"})
    text += fmt::format("{:>9}", name);
  return text + fmt::format(" |{:>9}{:>8}{:>8}{:>8}", "centred", "SQNR dB", "max abs", "better%");
}

std::string HeadLine(const Report& report, const HeadReport& head) {
  const SideTable& side = report.table->FindLayer(head.layer)->side(head.side);
  const auto h = static_cast<std::size_t>(head.head);
  return fmt::format("{:>5} {} {:>4}  {:<9}{} {:>8}\n", head.layer, SideName(head.side), head.head,
                     NameOf(ChosenNames(), side.heads[h].chosen), ErrorColumns(head.errors),
                     head.table_bytes);
}

std::string Intro(const Report& report) {
  std::string files;
  for (const DumpFile& file : report.dump->files()) files += (files.empty() ? "" : ", ") + file.name;
  std::string text = fmt::format("Table {}, dump {}: ", report.table_path.filename().string(), files);
  text += report.known_dump
              ? fmt::format("{} test tokens that the fit never saw (fitted on {}, chosen on {}).\n",
                            report.test_tokens, report.fit_tokens, report.validation_tokens)
              : fmt::format("the table was not fitted on this dump, so all its {} tokens but the sinks.\n",
                            report.test_tokens);
  text +=
      "NMSE = error energy / energy, of every way to store a head with the table's bits, block, grid and "
      "scale;\n+o: with the table's offset, *: nearest rounding. Right of the bar: the calibrated codec; "
      "centred "
      "= over\nthe energy around the fit mean, better% = blocks with a smaller error than hadam+o.\n";
  return text;
}

std::string CodecLines(const Report& report) {
  std::string text;
  for (const Side side : kSides) {
    std::string last;
    for (const LayerTable& layer : report.table->layers) {
      const SideTable& table = layer.side(side);
      const CodecSpec& codec = table.codec;
      std::string line = fmt::format(
          "{}: {} bits per value stored ({}-bit {} codes, {} scales, blocks of {} of {} channels), {} "
          "rotation\n",
          SideName(side), codec.bits_per_value(), codec.bits, NameOf(GridKinds(), codec.grid),
          NameOf(ScaleRules(), codec.scale), codec.block, codec.head_dim, NameOf(Families(), table.family));
      if (line != last) text += line;
      last = std::move(line);
    }
  }
  return text;
}

std::string ModelLines(const Report& report) {
  std::string text;
  for (const StoredSides stored : kStoredSides)
    text += fmt::format("model {:<4}{:>14}{}\n", StoredName(stored), "",
                        ErrorColumns(report.pools[static_cast<std::size_t>(stored)].errors));
  for (const Side side : kSides) {
    const PooledReport& pool = report.pools[static_cast<std::size_t>(side)];
    text += fmt::format(
        "{}: NMSE {} times plain Hadamard's, {} times hadam+o's (geometric means over heads)\n",
        SideName(side), Number(pool.ratio_to_hadamard, 4), Number(pool.ratio_to_hadamard_offset, 4));
  }
  return text;
}

}  // namespace

std::string ReportText(const Report& report) {
  std::string text = Intro(report) + CodecLines(report);
  text += fmt::format("\nlayer   head  chosen   {} {:>8}\n", ColumnNames(), "table B");
  for (const HeadReport& head : report.heads) text += HeadLine(report, head);
  text += fmt::format("\nlayers, pooled by energy\n");
  for (const LayerReport& layer : report.layers)
    for (const Side side : kSides)
      text += fmt::format("{:>5} {}{:>16}{}\n", layer.layer, SideName(side), "",
                          ErrorColumns(layer.pools[static_cast<std::size_t>(side)].errors));
  return text + '\n' + ModelLines(report) + '\n' + AttentionText(report);
}

}  // namespace so4cal
