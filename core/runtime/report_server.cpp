// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/report_server.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/runtime/report_socket.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Exchanges at a time; further clients wait in the listener's queue.
constexpr std::size_t kClients = 16;
// Runtimes of one process that offer their reports in one folder.
constexpr int kPlaces = 64;
constexpr std::size_t kRequestCap = 64;
// How long to leave the listener alone when the process has no descriptor left.
constexpr milliseconds kAcceptPause{200};
// For the lock of a folder, which others hold for a few system calls.
constexpr milliseconds kLockWait{1000};

Rejection refuse(const fs::path& path, std::string expected, std::string found,
                 std::string hint = {}) {
  return reject(rules::kRuntimeReportSocket, printable(path.native()), std::move(expected),
                std::move(found), std::move(hint));
}

// Whoever looks whether a socket's program is gone, and removes or makes one, holds this: a socket
// that is bound and does not listen yet looks like one whose program is gone.
bool lock_folder(const Descriptor& folder) {
  const Clock::time_point end = Clock::now() + kLockWait;
  while (flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || Clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

enum class Occupant { kNothing, kProgram, kGoneProgram, kOther };

// With the folder's lock held.
Occupant occupant_of(const Descriptor& folder, const std::string& name) {
  struct stat status {};
  if (fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? Occupant::kNothing : Occupant::kOther;
  if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid()) return Occupant::kOther;
  // A program that is too busy to accept is there all the same.
  return connect_to(folder, name).error == ECONNREFUSED ? Occupant::kGoneProgram
                                                        : Occupant::kProgram;
}

// Sockets of programs that were killed, with the folder's lock held.
void remove_gone_programs(const Descriptor& folder) {
  Descriptor copy(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy.valid() ? fdopendir(copy.get()) : nullptr,
                                                    closedir);
  if (!entries) return;
  copy.release();
  while (const dirent* const entry = readdir(entries.get())) {
    if (process_of_socket(entry->d_name) &&
        occupant_of(folder, entry->d_name) == Occupant::kGoneProgram) {
      unlinkat(folder.get(), entry->d_name, 0);
    }
  }
}

struct Listener {
  Descriptor socket;
  Descriptor folder;
  fs::path path;
  std::string name;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// With the folder's lock held; nothing of that name is there.
Check listen_on(Listener& listener) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = path_through(listener.folder, listener.name);
  if (path.size() >= sizeof address.sun_path)
    return refuse(listener.path, "a shorter name",
                  "one of " + std::to_string(listener.name.size()) + " characters");
  path.copy(address.sun_path, path.size());
  listener.socket = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat status {};
  // Linux gives the file that bind() makes the mode of the descriptor: it is never open to others.
  if (!listener.socket.valid() || fchmod(listener.socket.get(), S_IRUSR | S_IWUSR) != 0 ||
      bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0) {
    return refuse(listener.path, "a socket that can be made", std::strerror(errno));
  }
  if (listen(listener.socket.get(), 128) != 0 ||
      fstatat(listener.folder.get(), listener.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    const int error = errno;
    unlinkat(listener.folder.get(), listener.name.c_str(), 0);
    return refuse(listener.path, "a socket that can be made", std::strerror(error));
  }
  listener.device = status.st_dev;
  listener.inode = status.st_ino;
  return std::nullopt;
}

Result<Listener> open_default_place() {
  const fs::path folder = default_report_folder();
  Result<Descriptor> opened = make_report_folder(folder, geteuid());
  if (!opened.ok()) return std::move(opened).rejection();
  Listener listener;
  listener.folder = *std::move(opened);
  if (!lock_folder(listener.folder))
    return refuse(folder, "a folder that can be locked", "one that another program has locked");
  remove_gone_programs(listener.folder);
  for (int place = 1; place <= kPlaces; ++place) {
    listener.name = report_socket_name(getpid(), place);
    listener.path = folder / listener.name;
    if (occupant_of(listener.folder, listener.name) != Occupant::kNothing) continue;
    if (Check problem = listen_on(listener)) return *std::move(problem);
    flock(listener.folder.get(), LOCK_UN);
    return listener;
  }
  return refuse(folder, "at most " + std::to_string(kPlaces) + " sockets of a process", "more");
}

Result<Listener> open_place(const fs::path& place) {
  Listener listener;
  listener.path = place;
  listener.name = place.filename().string();
  if (listener.name.empty() || listener.name == "." || listener.name == "..")
    return refuse(place, "the path of a socket", "the path of a folder");
  const fs::path folder = place.parent_path();
  listener.folder = Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!listener.folder.valid())
    return refuse(place, "a folder that is there", std::strerror(errno));
  if (!lock_folder(listener.folder))
    return refuse(place, "a folder that can be locked", "one that another program has locked");
  switch (occupant_of(listener.folder, listener.name)) {
    case Occupant::kNothing:
      break;
    case Occupant::kGoneProgram:
      unlinkat(listener.folder.get(), listener.name.c_str(), 0);
      break;
    case Occupant::kProgram:
      return refuse(place, "a path that no other program uses",
                    "a socket that a running program answers on",
                    "Name another path, or none for one per process.");
    case Occupant::kOther:
      return refuse(place, "a path where nothing is, or a socket of this user",
                    "something else, which stays");
  }
  if (Check problem = listen_on(listener)) return *std::move(problem);
  flock(listener.folder.get(), LOCK_UN);
  return listener;
}

bool may_read(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

// One exchange.
struct Client {
  Descriptor socket;
  Clock::time_point deadline;
  std::string request;
  std::string answer;  // empty: the request is not read yet
  std::size_t sent = 0;

  // False when it is over. Throws what `make_answer` throws.
  bool advance(const ReportServer::MakeAnswer& make_answer) {
    if (answer.empty() && !read_request(make_answer)) return false;
    return answer.empty() || send_answer();
  }

 private:
  bool read_request(const ReportServer::MakeAnswer& make_answer) {
    std::array<char, kRequestCap> buffer;
    const ssize_t size = recv(socket.get(), buffer.data(), buffer.size() - request.size(), 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    request.append(buffer.data(), static_cast<std::size_t>(size));
    const std::size_t end = request.find('\n');
    if (end == std::string::npos && request.size() < kRequestCap) return true;
    if (request.substr(0, end) + "\n" == kReportRequest) {
      answer = make_answer() + "\n";
    } else {
      answer = "{\"error\": \"the request is not `report` and a line end\", \"rejection\": null}\n";
    }
    return true;
  }

  bool send_answer() {
    while (sent < answer.size()) {
      // A client that has gone is an error here, not a signal that ends the process.
      const ssize_t size =
          send(socket.get(), answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (size < 0) return errno == EAGAIN || errno == EINTR;
      sent += static_cast<std::size_t>(size);
    }
    return false;
  }
};

}  // namespace

struct ReportServer::Impl {
  Listener listener;
  MakeAnswer make_answer;
  milliseconds deadline{};
  Descriptor wake;
  pid_t process = getpid();
  std::vector<Client> clients;  // of the thread alone; room for all is made before it starts
  std::optional<Clock::time_point> accept_again;
  std::thread thread;

  void stop() noexcept {
    if (!thread.joinable()) return;
    if (process != getpid()) {
      // The thread, and the socket's file, are those of the process that this one was forked from.
      thread.detach();
      return;
    }
    const std::uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof one);
    thread.join();
  }

  void remove_socket() noexcept {
    if (process != getpid() || !listener.folder.valid()) return;
    struct stat status {};
    if (fstatat(listener.folder.get(), listener.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_dev == listener.device && status.st_ino == listener.inode) {
      unlinkat(listener.folder.get(), listener.name.c_str(), 0);
    }
  }

  void accept_clients() {
    while (clients.size() < kClients) {
      Descriptor socket(
          accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN) accept_again = Clock::now() + kAcceptPause;
        return;
      }
      if (!may_read(socket)) continue;
      Client client;
      client.socket = std::move(socket);
      client.deadline = Clock::now() + deadline;
      clients.push_back(std::move(client));
    }
  }

  void advance_clients(const pollfd* polled) {
    const Clock::time_point now = Clock::now();
    std::size_t index = 0;
    std::erase_if(clients, [&](Client& client) {
      const bool is_ready = polled[index++].revents != 0;
      try {
        return (is_ready && !client.advance(make_answer)) || now >= client.deadline;
      } catch (const std::exception&) {
        return true;  // no memory for the answer: the client asks again
      }
    });
  }

  // How long poll() may sleep.
  int timeout() const {
    std::optional<Clock::time_point> due = accept_again;
    for (const Client& client : clients)
      due = due ? std::min(*due, client.deadline) : client.deadline;
    if (!due) return -1;
    const auto left = std::chrono::duration_cast<milliseconds>(*due - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count() + 1, 0));
  }

  void serve() {
    std::array<pollfd, kClients + 2> polled;
    for (;;) {
      if (accept_again && Clock::now() >= *accept_again) accept_again.reset();
      const bool accepts = clients.size() < kClients && !accept_again;
      polled[0] = {wake.get(), POLLIN, 0};
      polled[1] = {accepts ? listener.socket.get() : -1, POLLIN, 0};
      for (std::size_t index = 0; index < clients.size(); ++index) {
        const bool is_reading = clients[index].answer.empty();
        polled[index + 2] = {clients[index].socket.get(),
                             static_cast<short>(is_reading ? POLLIN : POLLOUT), 0};
      }
      if (poll(polled.data(), clients.size() + 2, timeout()) < 0) {
        if (errno != EINTR) std::this_thread::sleep_for(kAcceptPause);  // no memory in the kernel
        continue;
      }
      if (polled[0].revents != 0) return;
      advance_clients(polled.data() + 2);
      if (polled[1].revents != 0) accept_clients();
    }
  }
};

ReportServer::ReportServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ReportServer::~ReportServer() {
  impl_->stop();
  impl_->remove_socket();
}

const fs::path& ReportServer::path() const { return impl_->listener.path; }

Result<std::unique_ptr<ReportServer>> ReportServer::start(const fs::path& place, MakeAnswer answer,
                                                          milliseconds deadline) {
  Result<Listener> listener = place.empty() ? open_default_place() : open_place(place);
  if (!listener.ok()) return std::move(listener).rejection();
  auto impl = std::make_unique<Impl>();
  Impl& server = *impl;
  server.listener = *std::move(listener);
  server.make_answer = std::move(answer);
  server.deadline = deadline;
  server.clients.reserve(kClients);
  server.wake = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // Removes the socket from here on.
  std::unique_ptr<ReportServer> started(new ReportServer(std::move(impl)));
  if (!server.wake.valid())
    return refuse(server.listener.path, "a descriptor for the thread", std::strerror(errno));
  // The program's signal handlers run on the program's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::string problem;
  try {
    server.thread = std::thread([&server] { server.serve(); });
  } catch (const std::system_error& error) {
    problem = error.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!problem.empty()) return refuse(server.listener.path, "a thread for the socket", problem);
  return started;
}

}  // namespace opmux
