// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/report_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "core/base/environment.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolderForm = "a folder that only this user may enter and write to";

// Decimal digits without a leading zero.
std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  if (text.empty() || text.front() < '1' || text.front() > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

fs::path temporary_report_folder(uid_t user) { return "/tmp/opmux-" + std::to_string(user); }

}  // namespace

fs::path default_report_folder() {
  // The XDG rule: a relative value is ignored.
  if (const auto base = environment_variable("XDG_RUNTIME_DIR"); base && base->front() == '/')
    return fs::path{*base} / "opmux";
  return temporary_report_folder(geteuid());
}

std::vector<fs::path> report_folders(uid_t user) {
  std::vector<fs::path> folders;
  if (user == geteuid()) folders.push_back(default_report_folder());
  for (fs::path folder :
       {fs::path{"/run/user"} / std::to_string(user) / "opmux", temporary_report_folder(user)}) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  }
  return folders;
}

Result<Descriptor> open_report_folder(const fs::path& folder, uid_t user) {
  const auto refuse = [&](std::string found) {
    return reject(rules::kRuntimeReportSocket, printable(folder.native()), kFolderForm,
                  std::move(found));
  };
  Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!descriptor.valid() || fstat(descriptor.get(), &status) != 0)
    return refuse(std::strerror(errno));
  if (status.st_uid != user) return refuse("it belongs to user " + std::to_string(status.st_uid));
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) return refuse("it is open to others");
  return descriptor;
}

Result<Descriptor> make_report_folder(const fs::path& folder, uid_t user) {
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return reject(rules::kRuntimeReportSocket, printable(folder.native()), kFolderForm,
                  std::string("it cannot be made: ") + std::strerror(errno));
  }
  return open_report_folder(folder, user);
}

std::string report_socket_name(pid_t process, int place) {
  std::string name = std::to_string(process);
  if (place > 1) name += "-" + std::to_string(place);
  return name + ".sock";
}

std::optional<pid_t> process_of_socket(std::string_view name) {
  constexpr std::string_view kEnd = ".sock";
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  const std::size_t dash = name.find('-');
  if (dash != std::string_view::npos && !parse_number(name.substr(dash + 1))) return std::nullopt;
  return parse_number(name.substr(0, dash));
}

std::string path_through(const Descriptor& folder, const std::string& name) {
  return "/proc/self/fd/" + std::to_string(folder.get()) + "/" + name;
}

Connection connect_to(const Descriptor& folder, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = path_through(folder, name);
  if (path.size() >= sizeof address.sun_path) return {{}, ENAMETOOLONG};
  path.copy(address.sun_path, path.size());
  Connection connection{Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
                        0};
  if (!connection.socket.valid() ||
      connect(connection.socket.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof address) != 0) {
    connection.error = errno;
    connection.socket.reset();
  }
  return connection;
}

}  // namespace opmux
