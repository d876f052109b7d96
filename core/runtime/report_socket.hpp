// SPDX-License-Identifier: Apache-2.0
//
// Where a program offers its report, and how to reach it. The exchange is in docs/report.md.
//
// Thread safety: functions without state.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/base/result.hpp"

namespace opmux {

// What a client sends.
inline constexpr std::string_view kReportRequest = "report\n";

// $XDG_RUNTIME_DIR/opmux, or /tmp/opmux-UID where there is none; of the effective user.
std::filesystem::path default_report_folder();

// Where a program of `user` may offer its report: the default folder of this process, and those of
// a program that was started with another XDG_RUNTIME_DIR or none.
std::vector<std::filesystem::path> report_folders(uid_t user);

// The folder, when it belongs to `user` and nobody else may enter it or write to it. Rule
// runtime.report_socket.
Result<Descriptor> open_report_folder(const std::filesystem::path& folder, uid_t user);

// As open_report_folder(), made first where nothing is there.
Result<Descriptor> make_report_folder(const std::filesystem::path& folder, uid_t user);

// The name of a process's first, second, ... socket: "123.sock", "123-2.sock".
std::string report_socket_name(pid_t process, int place);
// Whose socket has this name; nothing for other names.
std::optional<pid_t> process_of_socket(std::string_view name);

// A path through an open folder, for bind() and connect(): it has no more than the 107 characters
// that they take however deep the folder lies, and it is the folder that was looked at.
std::string path_through(const Descriptor& folder, const std::string& name);

struct Connection {
  Descriptor socket;  // does not block
  int error = 0;      // of connect(), when there is no socket
};
Connection connect_to(const Descriptor& folder, const std::string& name);

}  // namespace opmux
