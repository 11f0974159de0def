// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace so4cal {
inline constexpr char kVersion[] = SO4CAL_VERSION;  // set by CMake from project(VERSION)
inline constexpr int kRowFormatVersion = 1;         // lib/CODEC.md, "Row format"
}  // namespace so4cal
