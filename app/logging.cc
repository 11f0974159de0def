// SPDX-License-Identifier: Apache-2.0
#include "app/logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/error.h"

namespace so4cal {
namespace {

// https://no-color.org: any non-empty value.
bool ColorWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return StderrIsTerminal() && (no_color == nullptr || *no_color == '\0');
}

}  // namespace

bool StderrIsTerminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

void AddLogOptions(CLI::App& app, LogOptions& options) {
  app.add_option("--log-level", options.level, "What is logged to stderr")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  app.add_option("--log-file", options.file, "Also append a log, from level info up, to this file");
}

void SetUpLogging(const LogOptions& options) {
  std::vector<spdlog::sink_ptr> sinks;
  if (ColorWanted())
    sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  else
    sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  const auto level = spdlog::level::from_str(options.level);
  sinks[0]->set_level(level);
  sinks[0]->set_pattern("so4cal: %^%l%$: %v");
  if (!options.file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    } catch (const spdlog::spdlog_ex& e) {
      throw Error("--log-file " + options.file + " can't be opened for writing: " + e.what());
    }
    sinks[1]->set_level(std::min(level, spdlog::level::info));
    sinks[1]->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z [%l] %v");
  }
  auto logger = std::make_shared<spdlog::logger>("so4cal", sinks.begin(), sinks.end());
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

}  // namespace so4cal
