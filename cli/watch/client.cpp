// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/descriptor.hpp"
#include "core/base/text.hpp"
#include "core/runtime/report_socket.hpp"

namespace opmux::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Kind = Answer::Kind;
using std::chrono::milliseconds;

// A report of some hundred operators is a few hundred kilobytes.
constexpr std::size_t kAnswerCap = std::size_t{64} << 20;
constexpr milliseconds kBusyPause{20};

Answer failed(Kind kind, std::string problem) { return {kind, {}, std::move(problem)}; }

// Nothing when `socket` is ready.
std::optional<Answer> wait_for(const Descriptor& socket, short events, int interrupt,
                               Clock::time_point end) {
  for (;;) {
    std::array<pollfd, 2> polled{pollfd{socket.get(), events, 0}, pollfd{interrupt, POLLIN, 0}};
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left.count() <= 0) return failed(Kind::kSilent, "it does not answer in time");
    if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0 && errno != EINTR)
      return failed(Kind::kFailed, std::strerror(errno));
    if (polled[1].revents != 0) return failed(Kind::kInterrupted, "interrupted");
    if (polled[0].revents != 0) return std::nullopt;
  }
}

// Nothing when the program on the other end is one to believe.
std::optional<Answer> distrust(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return failed(Kind::kFailed, std::strerror(errno));
  if (geteuid() == 0 || peer.uid == geteuid() || peer.uid == 0) return std::nullopt;
  return failed(Kind::kForbidden,
                "a program of user " + std::to_string(peer.uid) + " answers there");
}

Answer not_connected(int error) {
  switch (error) {
    case ENOENT:
      return failed(Kind::kNothing, "nothing is there");
    case ECONNREFUSED:
      return failed(Kind::kGone, "its program has ended");
    case EACCES:
    case EPERM:
      return failed(Kind::kForbidden, "it is another user's");
    case EAGAIN:
      return failed(Kind::kSilent, "it does not answer in time");
    default:
      return failed(Kind::kFailed, std::strerror(error));
  }
}

Answer exchange(const Descriptor& socket, int interrupt, Clock::time_point end) {
  // Shorter than any buffer of a socket.
  if (send(socket.get(), kReportRequest.data(), kReportRequest.size(), MSG_NOSIGNAL) < 0)
    return not_connected(errno == EPIPE ? ECONNREFUSED : errno);
  Answer answer;
  std::vector<char> buffer(std::size_t{1} << 16);
  for (;;) {
    if (std::optional<Answer> problem = wait_for(socket, POLLIN, interrupt, end)) return *problem;
    const ssize_t size = recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size < 0) return failed(Kind::kFailed, std::strerror(errno));
    if (size == 0) break;
    answer.text.append(buffer.data(), static_cast<std::size_t>(size));
    if (answer.text.size() > kAnswerCap) return failed(Kind::kFailed, "its answer does not end");
  }
  answer.kind = Kind::kText;
  return answer;
}

}  // namespace

Answer ask_for_report(const fs::path& path, milliseconds deadline, int interrupt) {
  const Clock::time_point end = Clock::now() + deadline;
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) return failed(Kind::kFailed, error.message());
  const Descriptor folder(open(whole.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return not_connected(errno == ENOTDIR ? ENOENT : errno);
  const std::string name = whole.filename().string();
  struct stat status {};
  if (fstatat(folder.get(), name.c_str(), &status, 0) != 0) return not_connected(errno);
  if (!S_ISSOCK(status.st_mode)) return failed(Kind::kFailed, "it is no socket");
  for (;;) {
    const Connection connection = connect_to(folder, name);
    if (connection.error == EAGAIN && Clock::now() + kBusyPause < end) {
      std::this_thread::sleep_for(kBusyPause);
      continue;
    }
    if (connection.error != 0) return not_connected(connection.error);
    if (std::optional<Answer> problem = distrust(connection.socket)) return *problem;
    return exchange(connection.socket, interrupt, end);
  }
}

Offers find_offers(uid_t user) {
  Offers found;
  for (const fs::path& path : report_folders(user)) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) continue;
    const Result<Descriptor> folder = open_report_folder(path, user);
    if (!folder.ok()) {
      found.rejections.push_back(folder.rejection());
      continue;
    }
    for (fs::directory_iterator at(path, error), last; !error && at != last; at.increment(error)) {
      const std::string name = at->path().filename().string();
      const std::optional<pid_t> process = process_of_socket(name);
      if (!process) continue;
      const int problem = connect_to(*folder, name).error;
      if (problem == 0 || problem == EAGAIN) found.offers.push_back({*process, at->path()});
    }
  }
  std::sort(found.offers.begin(), found.offers.end(), [](const Offer& left, const Offer& right) {
    const auto key = [](const Offer& offer) {
      const std::string& path = offer.socket.native();
      return std::tuple(offer.process, path.size(), path);
    };
    return key(left) < key(right);
  });
  return found;
}

}  // namespace opmux::cli
