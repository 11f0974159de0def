// SPDX-License-Identifier: Apache-2.0
#include "app/split_options.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <string>

#include "app/validators.h"

namespace so4cal {

void AddSplitOptions(CLI::App& cmd, SplitOptions& split) {
  cmd.add_option_function<std::string>(
         "--split", [&split](const std::string& text) { split = ParseSplit(text, split); },
         "Per cent of the tokens to fit on, to choose on and to report on; 0 for the second: no guard")
      ->check(CLI::Validator(
          [split](std::string& text) { return ReasonOf([&] { ParseSplit(text, split); }); }, "F,V,T"))
      ->default_str(fmt::format("{},{},{}", split.fit_percent, split.validation_percent, split.test_percent));
  cmd.add_option("--skip-tokens", split.skip_tokens, "Tokens dropped at the start of each sequence (sinks)")
      ->check(WholeNumber())
      ->capture_default_str();
  cmd.add_option("--fit-tokens", split.fit_tokens,
                 "Fit on at most this many tokens, in evenly spaced runs; 0: all")
      ->check(WholeNumber())
      ->capture_default_str();
}

}  // namespace so4cal
