// SPDX-License-Identifier: Apache-2.0
//
// The library's log: one named spdlog logger of our own, on stderr, level by OPMUX_LOG (trace,
// debug, info, warn, error, off; default warn). spdlog stays inside core/base. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace opmux::log {

enum class Level { kTrace, kDebug, kInfo, kWarn, kError, kOff };

// Parses a level's name; false when it is none.
bool parse_level(std::string_view name, Level& level);
void set_level(Level level);
bool enabled(Level level);
void write(Level level, std::string_view text);

inline void debug(std::string_view text) { write(Level::kDebug, text); }
inline void info(std::string_view text) { write(Level::kInfo, text); }
inline void warn(std::string_view text) { write(Level::kWarn, text); }
inline void error(std::string_view text) { write(Level::kError, text); }

}  // namespace opmux::log
