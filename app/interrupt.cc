// SPDX-License-Identifier: Apache-2.0
#include "app/interrupt.h"

#include <atomic>
#include <csignal>

namespace so4cal {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // what a signal handler may touch

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  // Reading a file goes on after the signal; the second signal meets the default action.
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted; }

}  // namespace so4cal
