// SPDX-License-Identifier: Apache-2.0
#include "tests/native/host.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

namespace opmux::test {
namespace {

constexpr int kThreads = 4;

thread_local std::string last_error;
std::atomic<int> parallel_calls{0};

void log(int32_t /*level*/, const char* /*module*/, const char* /*text*/) {}

void set_error(const char* text) { last_error = text; }

void serial_for(int64_t size, int64_t /*grain*/, OpmuxRangeFunction body, void* context) {
  ++parallel_calls;
  body(context, 0, size);
}

void threaded_for(int64_t size, int64_t grain, OpmuxRangeFunction body, void* context) {
  ++parallel_calls;
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t begin = next.fetch_add(grain); begin < size; begin = next.fetch_add(grain)) {
      body(context, begin, std::min(size, begin + grain));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < kThreads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

struct alignas(64) Line {
  unsigned char bytes[64];
};

thread_local std::vector<std::vector<Line>> handed_out;

// Filled with NaNs, so that a kernel that trusts fresh memory shows.
void* workspace(size_t bytes) {
  Line spoiled;
  std::fill(std::begin(spoiled.bytes), std::end(spoiled.bytes), static_cast<unsigned char>(0xff));
  return handed_out.emplace_back(bytes / sizeof(Line) + 1, spoiled).data();
}

void* no_workspace(size_t /*bytes*/) { return nullptr; }

OpmuxHost make_host(decltype(OpmuxHost::parallel_for) parallel_for,
                    decltype(OpmuxHost::workspace) memory) {
  OpmuxHost host = {};
  host.struct_size = sizeof(OpmuxHost);
  host.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
  host.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
  host.log = log;
  host.set_error = set_error;
  host.parallel_for = parallel_for;
  host.workspace = memory;
  return host;
}

}  // namespace

const OpmuxHost* serial_host() {
  static const OpmuxHost host = make_host(serial_for, workspace);
  return &host;
}

const OpmuxHost* threaded_host() {
  static const OpmuxHost host = make_host(threaded_for, workspace);
  return &host;
}

const OpmuxHost* poor_host() {
  static const OpmuxHost host = make_host(serial_for, no_workspace);
  return &host;
}

void reset_workspace() { handed_out.clear(); }

std::string take_error() { return std::exchange(last_error, {}); }

int take_parallel_calls() { return parallel_calls.exchange(0); }

}  // namespace opmux::test
