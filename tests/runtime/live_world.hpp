// SPDX-License-Identifier: Apache-2.0
//
// A machine whose drop-in folder and configuration tests change while a runtime runs: providers
// made of the fake module `live_N`.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "opmux/opmux.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux::testing {

// What a call of operator `number` writes when version `version` of the module serves it.
constexpr std::int64_t mark(int version, int number = 0) { return 8 * version + number; }

class LiveWorld {
 public:
  LiveWorld() {
    std::string declarations = "manifest: 1\ndeclare:\n";
    for (int number = 0; number < 8; ++number) {
      const std::string name = "live_" + std::to_string(number);
      declarations += "  " + name + ":\n    schema: \"" + name +
                      "(Tensor(a!) x, Tensor(b!) y) -> ()\"\n    summary: \"marks\"\n";
    }
    world_.write_manifest("live.yaml", declarations);
    std::filesystem::create_directories(folder() / "staging");
  }

  std::filesystem::path folder() const { return world_.folder().path(); }
  std::filesystem::path config() const { return folder() / "opmux.yaml"; }
  std::filesystem::path drop_in_folder(const std::string& provider) const {
    return world_.manifests() / provider;
  }
  std::filesystem::path module_file(const std::string& provider) const {
    return drop_in_folder(provider) / ("opmux_" + provider + ".so");
  }

  // A folder with one manifest and one module, put into place by one rename.
  void drop_in(const std::string& provider, const std::string& fake, int priority = 50) const {
    const std::filesystem::path staging = folder() / "staging" / provider;
    std::filesystem::create_directories(staging);
    write_manifest(staging, provider, priority);
    std::filesystem::copy_file(fakes::path(fake), staging / ("opmux_" + provider + ".so"),
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::rename(staging, drop_in_folder(provider));
  }
  // Another file under the module's path, by rename.
  void replace_module(const std::string& provider, const std::string& fake) const {
    const std::filesystem::path staged = folder() / "staging/module.so";
    std::filesystem::copy_file(fakes::path(fake), staged,
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::rename(staged, module_file(provider));
  }
  void remove(const std::string& provider) const {
    std::filesystem::remove_all(drop_in_folder(provider));
  }

  static void write_manifest(const std::filesystem::path& folder, const std::string& provider,
                             int priority) {
    std::string text = "manifest: 1\nprovider: " + provider + "\nplugin: " + provider +
                       "\npriority: " + std::to_string(priority) + "\noperators:\n";
    for (int number = 0; number < 8; ++number) {
      const std::string name = "live_" + std::to_string(number);
      text += "  " + name + ": {module: " + name + ", when: {device: cpu}}\n";
    }
    write_whole(folder / (provider + ".yaml"), text);
  }

  // Over the file in place, or as editors do: a new file renamed over the old one.
  void write_config(const std::string& rest, bool by_rename = true) const {
    const std::string text = "config: 1\n" + rest;
    if (!by_rename) return write_whole(config(), text);
    write_whole(folder() / "opmux.yaml.new", text);
    std::filesystem::rename(folder() / "opmux.yaml.new", config());
  }
  void write_routes(const std::string& providers) const {
    write_config("routes:\n  \"live_*\": [" + providers + "]\n");
  }

  Options options() const {
    Options options = world_.options();
    options.environments.resize(1);  // no torch is needed
    if (std::filesystem::exists(config())) options.config_file = config();
    return options;
  }

 private:
  World world_;
};

// One caller's tensors.
struct LiveCall {
  explicit LiveCall(const Runtime& runtime, int number = 0)
      : op(*runtime.op<void(Tensor, Tensor)>("live_" + std::to_string(number))) {}

  Status run() {
    x[0] = y[0] = -1;
    return op(TensorView(x.data(), DType::kInt64, {2}), TensorView(y.data(), DType::kInt64, {2}));
  }
  // The mark that both tensors carry; -1 for a failed call, -2 for a torn one.
  std::int64_t seen() {
    if (!run().ok()) return -1;
    return x[0] == y[0] ? x[0] : -2;
  }

  Operator<void(Tensor, Tensor)> op;
  std::array<std::int64_t, 2> x{};
  std::array<std::int64_t, 2> y{};
};

// Whether `condition` holds within `limit`, looking often.
inline bool becomes_true(const std::function<bool()>& condition,
                         std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// Calls operator 0 without a pause on threads of its own until it goes; a call that fails or is
// torn is counted.
class Load {
 public:
  explicit Load(const Runtime& runtime, int threads = 2) {
    for (int thread = 0; thread < threads; ++thread) {
      threads_.emplace_back([this, &runtime] {
        LiveCall call(runtime);
        while (!stop_) {
          if (call.seen() < 0) ++wrong_;
          ++calls_;
        }
      });
    }
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load() { stop(); }

  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  int wrong() const { return wrong_; }
  std::int64_t calls() const { return calls_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> wrong_{0};
  std::atomic<std::int64_t> calls_{0};
  std::vector<std::thread> threads_;
};

}  // namespace opmux::testing
