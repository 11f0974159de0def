// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace so4cal {

// Bad input or a request that can't be honoured. The message names the file, dataset, head or option,
// what was expected, what was found and what to do. Caught once, in app/main.cc (exit code 1).
// Never thrown from a codec kernel.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An option outside its own range, whatever the data (exit code 2).
struct UsageError : Error {
  using Error::Error;
};

}  // namespace so4cal

// A bug in so4cal itself: says where and aborts. Not for bad input.
#define SO4CAL_CHECK(condition)                                                                 \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      std::fprintf(stderr, "%s:%d: so4cal bug: %s is false\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
