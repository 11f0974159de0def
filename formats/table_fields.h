// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "formats/table_archive.h"
#include "lib/error.h"
#include "lib/names.h"
#include "lib/rotation_table.h"

namespace so4cal {

// One side of one layer. Implemented beside table_schema.cc, which has the rest of the table.
void SideFields(TableArchive& ar, SideTable& side);

// An integer or bool of the table, stored as a number from min to max.
template <class T>
void Integer(TableArchive& ar, const std::string& name, T& value, std::uint64_t min, std::uint64_t max) {
  auto number = static_cast<std::uint64_t>(value);
  ar.Number(name, number);
  if (number < min || number > max)
    ar.Fail(name, "is " + std::to_string(number) + ", expected " + std::to_string(min) + " to " +
                      std::to_string(max));
  value = static_cast<T>(number);
}

// One word of a table of choices.
template <class T>
void Choice(TableArchive& ar, const std::string& name, T& value, std::span<const Named<T>> choices) {
  std::string word = ar.loading() ? "" : std::string(NameOf(choices, value));
  ar.Text(name, word);
  if (ar.loading()) value = ParseName(choices, word, "'" + ar.file() + "': " + ar.PathOf(name));
}

// Runs a Check() of lib/ and names the file and the group in its error.
template <class Checked>
void CheckAt(const TableArchive& ar, const std::string& name, const Checked& checked) {
  try {
    checked.Check();
  } catch (const Error& e) {
    ar.Fail(name, e.what());
  }
}

}  // namespace so4cal
