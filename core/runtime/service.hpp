// SPDX-License-Identifier: Apache-2.0
//
// The one background thread of a runtime, started when there is something to do: preparing
// providers in the background, following files, and unmapping drained modules.
//
// Thread safety: all functions may be called from any thread, also from the service's own.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace opmux {

struct WatchedFolder {
  std::filesystem::path path;
  std::vector<std::string> names;  // of the entries that matter; empty: all
};

class Service {
 public:
  Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();  // as stop()

  // Runs `task` once, on the thread.
  void run(std::function<void()> task);
  // Calls `changed` on the thread when entries of `folders` have changed and then been left alone
  // for a moment; replaces what was watched before. Folders that do not exist are left out. An
  // entry that was not watched before counts as changed: nobody knows what happened to it between
  // the look at it and now. Rule runtime.watch.
  Check watch(const std::vector<WatchedFolder>& folders, std::function<void()> changed);
  // Closes modules as they drain.
  void drain();
  // Ends the thread after what it is doing; tasks that have not begun are dropped. Ends the process
  // when called on the service's own thread.
  void stop() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace opmux
