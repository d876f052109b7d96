// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <memory>

#include "core/base/environment.hpp"
#include "core/base/text.hpp"

namespace opmux::log {
namespace {

struct LevelName {
  Level level;
  std::string_view name;
  spdlog::level::level_enum severity;
};

// In the order of Level.
constexpr std::array<LevelName, 6> kLevels{{
    {Level::kTrace, "trace", spdlog::level::trace},
    {Level::kDebug, "debug", spdlog::level::debug},
    {Level::kInfo, "info", spdlog::level::info},
    {Level::kWarn, "warn", spdlog::level::warn},
    {Level::kError, "error", spdlog::level::err},
    {Level::kOff, "off", spdlog::level::off},
}};

const LevelName& entry(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

std::unique_ptr<spdlog::logger> make_logger() {
  auto logger =
      std::make_unique<spdlog::logger>("opmux", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("[%n] %v");
  Level level = Level::kWarn;
  // A value that names no level is reported by core/config, which every runtime reads.
  if (const auto name = environment_variable("OPMUX_LOG")) parse_level(*name, level);
  logger->set_level(entry(level).severity);
  return logger;
}

// Not in spdlog's registry, so that an application's own spdlog set-up and ours do not meet; never
// destroyed, so that other objects' destructors may still log at exit.
spdlog::logger& logger() {
  static spdlog::logger& instance = *make_logger().release();
  return instance;
}

}  // namespace

bool parse_level(std::string_view name, Level& level) {
  for (const LevelName& known : kLevels) {
    if (known.name != name) continue;
    level = known.level;
    return true;
  }
  return false;
}

void set_level(Level level) { logger().set_level(entry(level).severity); }

bool enabled(Level level) {
  return level != Level::kOff && logger().should_log(entry(level).severity);
}

void write(Level level, std::string_view text) {
  if (!enabled(level)) return;
  // One line per event, whatever a library's message holds.
  logger().log(entry(level).severity, "[{}] {}", entry(level).name, printable(text));
}

}  // namespace opmux::log
