// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/service.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/descriptor.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/runtime/modules.hpp"

namespace opmux {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// An editor writes, renames and sets attributes in several steps, and a copy has many files.
constexpr milliseconds kQuiet{80};
// A folder that never rests is looked at all the same.
constexpr milliseconds kLongestWait{400};
// Most modules drain within the call that is inside; a scope may hold one for ever.
constexpr milliseconds kShortestDrainPeriod{2};
constexpr milliseconds kLongestDrainPeriod{100};

constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM |
                                  IN_DELETE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF |
                                  IN_ONLYDIR;

using Names = std::map<int, std::vector<std::string>>;  // by watch; empty: all

// Whether `now` watches an entry that `before` did not.
bool watches_more(const Names& now, const Names& before) {
  return std::any_of(now.begin(), now.end(), [&](const auto& entry) {
    const auto known = before.find(entry.first);
    if (known == before.end()) return true;
    if (known->second.empty()) return false;
    return entry.second.empty() ||
           std::any_of(entry.second.begin(), entry.second.end(), [&](const std::string& name) {
             return std::find(known->second.begin(), known->second.end(), name) ==
                    known->second.end();
           });
  });
}

}  // namespace

struct Service::Impl {
  std::mutex mutex;  // of all but the descriptors and the thread
  std::deque<std::function<void()>> tasks;
  std::function<void()> changed;
  std::map<std::string, int> watches;  // by path
  Names names;
  std::optional<Clock::time_point> first_change, last_change;
  bool is_draining = false;
  milliseconds drain_period = kShortestDrainPeriod;
  bool is_stopping = false;
  Descriptor wake;
  Descriptor inotify;
  std::thread thread;

  ~Impl() { stop(); }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex);
      is_stopping = true;
      tasks.clear();
    }
    if (!thread.joinable()) return;
    if (thread.get_id() == std::this_thread::get_id()) {
      // Its frames use what is being destroyed: there is no way back to them.
      // Whatever the level of the log.
      std::fputs(
          "opmux: a Runtime was destroyed inside its own Options::on_change. Destroy it on another "
          "thread.\n",
          stderr);
      std::abort();
    }
    signal();
    thread.join();
  }

  void signal() noexcept {
    const std::uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof one);
  }

  // With the mutex held.
  void start() {
    if (!thread.joinable() && !is_stopping) {
      if (wake.get() < 0) wake = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      thread = std::thread([this] { loop(); });
    }
    signal();
  }

  void note_change() {
    const Clock::time_point now = Clock::now();
    if (!first_change) first_change = now;
    last_change = now;
  }

  // With the mutex held.
  void read_events() {
    alignas(inotify_event) std::array<char, 16384> buffer;
    for (;;) {
      const ssize_t size = read(inotify.get(), buffer.data(), buffer.size());
      if (size <= 0) return;
      for (ssize_t at = 0; at < size;) {
        inotify_event event;
        std::memcpy(&event, buffer.data() + at, sizeof event);
        const char* const name = buffer.data() + at + sizeof event;
        at += static_cast<ssize_t>(sizeof event + event.len);
        if ((event.mask & IN_Q_OVERFLOW) != 0) {
          note_change();
          continue;
        }
        const auto watched = names.find(event.wd);
        if (watched == names.end()) continue;
        const std::vector<std::string>& wanted = watched->second;
        const bool is_itself = (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0;
        if (is_itself || wanted.empty() ||
            (event.len > 0 && std::find(wanted.begin(), wanted.end(), name) != wanted.end())) {
          note_change();
        }
        if ((event.mask & IN_IGNORED) != 0) {
          const int gone = event.wd;
          std::erase_if(watches, [&](const auto& entry) { return entry.second == gone; });
          names.erase(gone);
        }
      }
    }
  }

  // How long poll() may sleep; with the mutex held.
  int timeout() const {
    const int idle = is_draining ? static_cast<int>(drain_period.count()) : -1;
    // Without a descriptor to be woken by, looking often has to do.
    if (!first_change) return wake.valid() ? idle : 100;
    const Clock::time_point due = std::min(*last_change + kQuiet, *first_change + kLongestWait);
    const auto left = std::chrono::duration_cast<milliseconds>(due - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count() + 1, 0));
  }

  // What is due now, if anything; with the mutex held.
  std::function<void()> next_task() {
    if (!tasks.empty()) {
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      return task;
    }
    if (!first_change) return nullptr;
    const Clock::time_point now = Clock::now();
    if (now < *last_change + kQuiet && now < *first_change + kLongestWait) return nullptr;
    first_change.reset();
    last_change.reset();
    return changed;
  }

  // True while there is more; also where memory ran out, to try again later.
  static bool drain_once() noexcept {
    try {
      return close_drained_modules();
    } catch (const std::exception&) {
      return true;
    }
  }

  static void run_task(const std::function<void()>& task) noexcept {
    try {
      task();
    } catch (const std::exception&) {
      // Tasks tell their errors themselves; this one had no memory to.
    }
  }

  void loop() {
    std::unique_lock lock(mutex);
    while (!is_stopping) {
      const int wait = tasks.empty() ? timeout() : 0;
      std::array<pollfd, 2> polled{pollfd{wake.get(), POLLIN, 0}, pollfd{inotify.get(), POLLIN, 0}};
      lock.unlock();
      (void)poll(polled.data(), polled[1].fd < 0 ? 1 : 2, wait);
      std::uint64_t ignored = 0;
      (void)!read(wake.get(), &ignored, sizeof ignored);
      lock.lock();
      if (is_stopping) return;
      if (inotify.get() >= 0) read_events();
      if (is_draining) {
        // Whoever asks for draining meanwhile is not to be forgotten.
        is_draining = false;
        drain_period = std::min(drain_period * 2, kLongestDrainPeriod);
        lock.unlock();
        const bool more = drain_once();
        lock.lock();
        is_draining |= more;
      }
      if (const std::function<void()> task = next_task()) {
        lock.unlock();
        run_task(task);
        lock.lock();
      }
    }
  }
};

Service::Service() : impl_(std::make_unique<Impl>()) {}
Service::~Service() = default;

void Service::run(std::function<void()> task) {
  const std::lock_guard lock(impl_->mutex);
  impl_->tasks.push_back(std::move(task));
  impl_->start();
}

Check Service::watch(const std::vector<WatchedFolder>& folders, std::function<void()> changed) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->inotify.get() < 0) {
    impl_->inotify = Descriptor(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (impl_->inotify.get() < 0) {
      return reject(rules::kRuntimeWatch, "inotify", "an inotify instance", std::strerror(errno));
    }
  }
  impl_->changed = std::move(changed);
  Check problem;
  std::map<std::string, int> watches;
  Names names;
  for (const WatchedFolder& folder : folders) {
    const int watch = inotify_add_watch(impl_->inotify.get(), folder.path.c_str(), kEvents);
    if (watch < 0) {
      if (errno != ENOENT && errno != ENOTDIR && !problem) {
        problem = reject(rules::kRuntimeWatch, printable(folder.path.native()),
                         "a folder that can be watched", std::strerror(errno));
      }
      continue;
    }
    const auto [at, is_new] = names.emplace(watch, folder.names);
    if (!is_new && !at->second.empty()) {
      if (folder.names.empty()) {
        at->second.clear();
      } else {
        at->second.insert(at->second.end(), folder.names.begin(), folder.names.end());
      }
    }
    watches[folder.path.native()] = watch;
  }
  if (watches_more(names, impl_->names)) impl_->note_change();
  for (const auto& [watch, ignored] : impl_->names) {
    if (names.count(watch) == 0) inotify_rm_watch(impl_->inotify.get(), watch);
  }
  impl_->watches = std::move(watches);
  impl_->names = std::move(names);
  impl_->start();
  return problem;
}

void Service::drain() {
  const std::lock_guard lock(impl_->mutex);
  impl_->is_draining = true;
  impl_->drain_period = kShortestDrainPeriod;
  impl_->start();
}

void Service::stop() noexcept { impl_->stop(); }

}  // namespace opmux
