// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/error.h"

namespace so4cal {

// One row of a table of choices: the word used on the command line and in files, and what it means.
template <class T>
struct Named {
  T value;
  std::string_view name;
  std::string_view summary;
};

// "absmax, mse"
template <class T>
std::string JoinNames(std::span<const Named<T>> table) {
  std::string all;
  for (const Named<T>& row : table) all.append(all.empty() ? "" : ", ").append(row.name);
  return all;
}

template <class T>
std::string_view NameOf(std::span<const Named<T>> table, T value) {
  for (const Named<T>& row : table)
    if (row.value == value) return row.name;
  throw Error("no name for value " + std::to_string(static_cast<int>(value)) + ", expected one of " +
              JoinNames(table));
}

// `what` is the option or the field of a file, for the error.
template <class T>
T ParseName(std::span<const Named<T>> table, std::string_view name, std::string_view what) {
  for (const Named<T>& row : table)
    if (row.name == name) return row.value;
  throw Error(std::string(what) + " is '" + std::string(name) + "', expected one of " + JoinNames(table));
}

}  // namespace so4cal
