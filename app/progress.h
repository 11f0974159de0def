// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace so4cal {

// "42 s", "3 min 20 s", "2 h 05 min"
std::string DurationText(double seconds);

// How far a long run is, on stderr: on a terminal one line that is redrawn, elsewhere only what Line()
// prints. Safe to call from several threads.
class Progress {
 public:
  explicit Progress(std::string what);  // "fit"
  ~Progress();                          // erases the redrawn line

  void Update(std::size_t done, std::size_t total);
  // A line that stays. On a terminal it is printed above the redrawn one.
  void Line(const std::string& text);
  // A line for a finished part, printed only where there is no redrawn line; the remaining time is added.
  void Milestone(const std::string& text);
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void Erase();
  std::string Remaining() const;

  const std::string what_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  std::mutex mutex_;
  std::size_t done_ = 0, total_ = 0;
  bool on_screen_ = false;
};

}  // namespace so4cal
