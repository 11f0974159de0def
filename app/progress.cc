// SPDX-License-Identifier: Apache-2.0
#include "app/progress.h"

#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <utility>

#include "app/logging.h"

namespace so4cal {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

}  // namespace

std::string DurationText(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(StderrIsTerminal()) {}

Progress::~Progress() {
  const std::lock_guard lock(mutex_);
  Erase();
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

std::string Progress::Remaining() const {
  if (done_ == 0 || done_ >= total_) return "";
  const double left = seconds() * static_cast<double>(total_ - done_) / static_cast<double>(done_);
  return ", about " + DurationText(left) + " left";
}

void Progress::Erase() {
  if (!std::exchange(on_screen_, false)) return;
  std::fputs("\r\033[K", stderr);
}

void Progress::Update(std::size_t done, std::size_t total) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  const auto now = Clock::now();
  if (!terminal_ || now - drawn_ < kRedrawInterval) return;
  drawn_ = now;
  Erase();
  fmt::print(stderr, "{}: {} of {} heads, {} %{}", what_, done, total, 100 * done / (total == 0 ? 1 : total),
             Remaining());
  std::fflush(stderr);
  on_screen_ = true;
}

void Progress::Line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  Erase();
  fmt::print(stderr, "{}\n", text);
}

void Progress::Milestone(const std::string& text) {
  if (terminal_) return;
  const std::lock_guard lock(mutex_);
  fmt::print(stderr, "{}: {}, {} of {} heads{}\n", what_, text, done_, total_, Remaining());
}

}  // namespace so4cal
