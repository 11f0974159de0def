// SPDX-License-Identifier: Apache-2.0
#include "app/dump_options.h"

#include <CLI/CLI.hpp>

namespace so4cal {

void AddDumpOptions(CLI::App& command, DumpOptions& options) {
  command.add_option("--axes", options.axes,
                     "Order of a dataset's axes, overriding the file's attribute: token,head,channel or "
                     "head,token,channel or batch,head,token,channel, each also after layer,");
  command
      .add_option("--key-name", options.key_name,
                  "Dataset of the keys inside /layers/<i>, or a path with {layer}")
      ->capture_default_str();
  command.add_option("--value-name", options.value_name, "The same for the values")->capture_default_str();
}

}  // namespace so4cal
