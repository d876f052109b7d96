// SPDX-License-Identifier: Apache-2.0
//
// The other end of a report socket, by system calls alone.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/descriptor.hpp"

namespace opmux::testing {

inline sockaddr_un address_of(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket.string();
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long: " + path);
  path.copy(address.sun_path, path.size());
  return address;
}

// A socket that blocks; not valid when the connection is refused.
inline Descriptor connect_client(const std::filesystem::path& path) {
  const sockaddr_un address = address_of(path);
  Descriptor client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    client.reset();
  return client;
}

inline void send_all(const Descriptor& client, const std::string& text) {
  (void)!send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// All until the other end closes.
inline std::string read_all(const Descriptor& client) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t size = recv(client.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

inline std::string ask(const std::filesystem::path& path, const std::string& request = "report\n") {
  const Descriptor client = connect_client(path);
  if (!client.valid()) return "no connection";
  send_all(client, request);
  return read_all(client);
}

// What a program leaves that is killed.
inline void leave_socket(const std::filesystem::path& path) {
  const sockaddr_un address = address_of(path);
  const Descriptor socket_descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(socket_descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
      0)
    throw std::runtime_error("cannot bind " + path.string());
}

}  // namespace opmux::testing
