// SPDX-License-Identifier: Apache-2.0
#include "core/probe/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/log.hpp"

namespace opmux::probing {

namespace {

using Clock = std::chrono::steady_clock;

// Both are what one library can make us hold in memory or read in a row.
constexpr std::size_t kReplyCap = std::size_t{256} << 20;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// Without pidfd_open (before Linux 5.3) the end of the process is looked for this often.
constexpr int kPollWithoutPidfdMs = 5;
// Descriptors of ours lie above those that the spawn arranges.
constexpr int kLowestDescriptor = 10;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      value_ = std::exchange(other.value_, -1);
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return value_; }
  bool open() const { return value_ >= 0; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_ = -1;
};

// Takes over `value` under a number that the spawn does not use; closed at exec.
Descriptor lifted(int value) {
  const Descriptor low(value);
  return Descriptor(fcntl(value, F_DUPFD_CLOEXEC, kLowestDescriptor));
}

struct Channels {
  Descriptor protocol, child_protocol;  // two ends of one socket pair
  Descriptor output, child_output;      // two ends of one pipe
};

// False with errno set.
bool open_channels(Channels& channels) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  channels.protocol = lifted(ends[0]);
  channels.child_protocol = lifted(ends[1]);
  if (!channels.protocol.open() || !channels.child_protocol.open()) return false;
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  channels.output = lifted(ends[0]);
  channels.child_output = lifted(ends[1]);
  if (!channels.output.open() || !channels.child_output.open()) return false;
  return fcntl(channels.protocol.get(), F_SETFL, O_NONBLOCK) == 0 &&
         fcntl(channels.output.get(), F_SETFL, O_NONBLOCK) == 0;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// 0, or the error.
int spawn(const ChildProcess& child, const Channels& channels, pid_t& process) {
  std::vector<std::string> arguments{child.executable.filename().native()};
  arguments.insert(arguments.end(), child.arguments.begin(), child.arguments.end());
  std::vector<std::string> environment = child.environment;

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, channels.child_output.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, channels.child_output.get(), 2);
  posix_spawn_file_actions_adddup2(&actions, channels.child_protocol.get(), kProtocolDescriptor);
  // What the host opened without O_CLOEXEC is none of the probe's business.
  posix_spawn_file_actions_addclosefrom_np(&actions, kProtocolDescriptor + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);

  const int error = posix_spawn(&process, child.executable.c_str(), &actions, &attributes,
                                pointers(arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// A child that was started and is not reaped yet.
class RunningChild {
 public:
  RunningChild(const ChildProcess& child, Channels channels, pid_t process,
               const std::function<bool(std::string_view)>& on_reply)
      : child_(child),
        channels_(std::move(channels)),
        process_(process),
        on_reply_(on_reply),
        buffer_(kReadBytes),
        deadline_(Clock::now() + child.deadline),
        exit_watch_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))) {}

  ChildEnd run() {
    ChildEnd end;
    end.how = ChildEnd::How::kUnknown;
    for (bool going = true; going;) going = step(end);
    // Also when it ended by itself: what it forked may hold pipes and go on.
    kill(-process_, SIGKILL);
    reap(end);
    // Only the reader's half is open now; what was written before the end is still in there.
    if (end.how != ChildEnd::How::kStopped) {
      read_replies();
      read_output();
    }
    end.output = tail();
    return end;
  }

 private:
  // False when the child is to be ended, or has ended.
  bool step(ChildEnd& end) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) {
      end.how = ChildEnd::How::kDeadline;
      return false;
    }
    std::array<pollfd, 3> watched{
        pollfd{channels_.protocol.get(),
               static_cast<short>(POLLIN | (written_ < child_.input.size() ? POLLOUT : 0)), 0},
        pollfd{channels_.output.get(), POLLIN, 0}, pollfd{exit_watch_.get(), POLLIN, 0}};
    auto timeout = static_cast<int>(std::min<decltype(left)>(left, 60000));
    if (!exit_watch_.open()) timeout = std::min(timeout, kPollWithoutPidfdMs);
    if (poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) return false;
    if (watched[0].revents & POLLOUT) write_input();
    if (watched[0].revents & (POLLIN | POLLHUP | POLLERR)) {
      if (!read_replies()) {
        end.how = ChildEnd::How::kStopped;
        return false;
      }
    }
    if (watched[1].revents & (POLLIN | POLLHUP | POLLERR)) {
      read_output();
      if (printed_ > child_.output_cap) {
        end.how = ChildEnd::How::kOutputCap;
        return false;
      }
    }
    // Left unreaped, so that its process id, which names the group, stays taken.
    siginfo_t info{};
    if (!exit_watch_.open() || watched[2].revents != 0) {
      const int result =
          waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT);
      return result == 0 ? info.si_pid == 0 : errno == EINTR;
    }
    return true;
  }

  void write_input() {
    const ssize_t count = send(channels_.protocol.get(), child_.input.data() + written_,
                               child_.input.size() - written_, MSG_NOSIGNAL);
    if (count > 0) {
      written_ += static_cast<std::size_t>(count);
    } else if (errno != EAGAIN && errno != EINTR) {
      written_ = child_.input.size();  // it reads no more; its replies or its end will tell
    }
  }

  // Everything that is there. False when the reader has enough.
  bool read_replies() {
    while (channels_.protocol.open()) {
      const ssize_t count = read(channels_.protocol.get(), buffer_.data(), buffer_.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return true;
      if (count <= 0) {
        channels_.protocol.close();  // the child's half is closed; its end will tell why
        return true;
      }
      replied_ += static_cast<std::size_t>(count);
      if (replied_ > kReplyCap || !on_reply_({buffer_.data(), static_cast<std::size_t>(count)})) {
        return false;
      }
    }
    return true;
  }

  // Keeps the end; stops at the cap, since a flood could go on for ever.
  void read_output() {
    while (channels_.output.open() && printed_ <= child_.output_cap) {
      const ssize_t count = read(channels_.output.get(), buffer_.data(), buffer_.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        channels_.output.close();
        return;
      }
      printed_ += static_cast<std::size_t>(count);
      output_.append(buffer_.data(), static_cast<std::size_t>(count));
      if (output_.size() > 2 * child_.output_tail + kReadBytes) output_ = tail();
    }
  }

  std::string tail() const {
    return output_.substr(output_.size() - std::min(output_.size(), child_.output_tail));
  }

  void reap(ChildEnd& end) {
    // After SIGKILL this is over at once, but for a process that is stuck in the kernel.
    constexpr int kPatienceMs = 2000;
    pollfd watch{exit_watch_.get(), POLLIN, 0};
    if (exit_watch_.open() && poll(&watch, 1, kPatienceMs) == 0) {
      log::warn("a probe does not end on SIGKILL; it is left to end by itself");
      try {
        std::thread([process = process_] { waitpid(process, nullptr, 0); }).detach();
      } catch (const std::system_error&) {
        log::warn("it will stay as a zombie");
      }
      return;
    }
    int status = 0;
    pid_t result = 0;
    do {
      result = waitpid(process_, &status, 0);
    } while (result < 0 && errno == EINTR);
    if (result < 0 || end.how != ChildEnd::How::kUnknown) return;
    if (WIFEXITED(status)) {
      end.how = ChildEnd::How::kExited;
      end.code = WEXITSTATUS(status);
    } else if (WIFSIGNALED(status)) {
      end.how = ChildEnd::How::kSignalled;
      end.code = WTERMSIG(status);
    }
  }

  const ChildProcess& child_;
  Channels channels_;
  const pid_t process_;
  const std::function<bool(std::string_view)>& on_reply_;
  std::vector<char> buffer_;
  const Clock::time_point deadline_;
  const Descriptor exit_watch_;
  std::size_t written_ = 0;
  std::size_t replied_ = 0;
  std::size_t printed_ = 0;
  std::string output_;
};

}  // namespace

ChildEnd run_child(const ChildProcess& child,
                   const std::function<bool(std::string_view)>& on_reply) {
  ChildEnd failed;
  Channels channels;
  if (!open_channels(channels)) {
    failed.code = errno;
    return failed;
  }
  pid_t process = 0;
  failed.code = spawn(child, channels, process);
  if (failed.code != 0) return failed;
  channels.child_protocol.close();
  channels.child_output.close();
  return RunningChild(child, std::move(channels), process, on_reply).run();
}

}  // namespace opmux::probing
