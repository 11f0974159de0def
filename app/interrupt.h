// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace so4cal {

// From now on SIGINT and SIGTERM only set a flag that a long run polls; a second one ends the process.
void CatchInterrupts();
bool Interrupted();

}  // namespace so4cal
