// SPDX-License-Identifier: Apache-2.0
//
// Offers a program's report on a Unix domain socket to its user and to root, on a thread of its
// own. Nothing here waits for a client beyond its deadline, and no call of an operator waits for
// anything here.
//
// Thread safety: start() may be called from any thread; a server is then left alone.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/base/result.hpp"

namespace opmux {

class ReportServer {
 public:
  // The report as JSON. Called on the server's thread; what it throws ends that client's exchange.
  using MakeAnswer = std::function<std::string()>;

  // On `place`, whose folder must exist, or where that is empty in the default folder as PID.sock,
  // PID-2.sock and so on. A socket whose program is gone is replaced; nothing else ever is. A
  // client has `deadline` for its whole exchange. Rule runtime.report_socket.
  static Result<std::unique_ptr<ReportServer>> start(
      const std::filesystem::path& place, MakeAnswer answer,
      std::chrono::milliseconds deadline = std::chrono::seconds(5));

  ReportServer(const ReportServer&) = delete;
  ReportServer& operator=(const ReportServer&) = delete;
  // Ends the thread and removes the socket. In a process that was forked off, neither.
  ~ReportServer();

  const std::filesystem::path& path() const;

 private:
  struct Impl;
  explicit ReportServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opmux
