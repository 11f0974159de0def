// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace so4cal {

// Calls work(0), ..., work(n - 1) on all cores, in no particular order. The first exception is thrown again
// here after the running calls are done; the others are not started.
template <class Work>
void ParallelFor(std::size_t n, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto loop = [&] {
    for (std::size_t i = next++; i < n; i = next++) try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = n;
      }
  };
  {
    const std::size_t cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(cores, n); ++i) threads.emplace_back(loop);
    loop();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace so4cal
