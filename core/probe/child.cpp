// SPDX-License-Identifier: Apache-2.0
#include "core/probe/child.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/loader/binding.hpp"
#include "core/loader/loader.hpp"
#include "core/probe/driver_query.hpp"
#include "core/probe/frame.hpp"
#include "core/probe/messages.hpp"
#include "core/probe/sanitizers.hpp"

namespace opmux::probing {

namespace {

#if defined(OPMUX_WITH_ADDRESS_SANITIZER) || defined(OPMUX_WITH_THREAD_SANITIZER)
constexpr bool kLimitMemory = false;  // their shadow memory is larger than any limit
#else
constexpr bool kLimitMemory = true;
#endif

// The last library must leave the next one this much.
constexpr std::size_t kSpareMemory = std::size_t{64} << 20;

// `margin` is what lies between the soft limit, which warns with a signal of its own, and the hard
// one, which kills.
void limit(__rlimit_resource resource, std::uint64_t value, std::uint64_t margin = 0) {
  rlimit wanted{};
  if (getrlimit(resource, &wanted) != 0) return;
  wanted.rlim_max = std::min<rlim_t>(wanted.rlim_max, value + margin);
  wanted.rlim_cur = std::min<rlim_t>(wanted.rlim_max, value);
  setrlimit(resource, &wanted);
}

// The parent is gone or will notice by itself; nobody is left to be told anything.
[[noreturn]] void give_up() { _exit(kProtocolLostExit); }

class Probe {
 public:
  explicit Probe(int descriptor) : descriptor_(descriptor) {}

  void run() {
    limit(RLIMIT_CORE, 0);
    Reply hello{.kind = Reply::Kind::kHello};
    hello.protocol = kProtocolVersion;
    hello.text = opmux_version();
    say(hello);
    read_request();
    apply_limits();
    // Ends with its parent. A parent that ended before this line is noticed here.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != request_.parent) give_up();
    // A module that asks for parallel work while it starts gets this thread alone.
    set_thread_count(1);
    load_driver();
    load_torch();
    load_python();
    for (std::size_t i = 0; i < request_.modules.size(); ++i) load_module(i);
    for (std::size_t i = 0; i < request_.libraries.size(); ++i) load_library(i);
    for (std::size_t i = 0; i < request_.bindings.size(); ++i) try_binding(i);
    say({.kind = Reply::Kind::kDone});
  }

 private:
  void say(const Reply& reply) {
    const std::string frame = encode_frame(to_json(reply));
    for (std::size_t written = 0; written < frame.size();) {
      const ssize_t count = write(descriptor_, frame.data() + written, frame.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) give_up();
      written += static_cast<std::size_t>(count);
    }
  }

  void read_request() {
    FrameReader frames;
    std::string payload;
    while (true) {
      const FrameReader::Next next = frames.next(payload);
      if (next == FrameReader::Next::kFrame) break;
      if (next == FrameReader::Next::kBroken) give_up();
      char buffer[4096];
      const ssize_t count = read(descriptor_, buffer, sizeof(buffer));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) give_up();
      frames.append({buffer, static_cast<std::size_t>(count)});
    }
    std::string fault;
    std::optional<Request> request = parse_request(payload, fault);
    if (!request) give_up();
    request_ = std::move(*request);
  }

  void apply_limits() {
    const Limits& limits = request_.limits;
    limit(RLIMIT_NOFILE, limits.open_files);
    limit(RLIMIT_FSIZE, limits.file_bytes);
    limit(RLIMIT_CPU, limits.cpu_seconds, 2);
    // Not RLIMIT_AS: a driver reserves address space as large as all memory, which is no harm.
    if (kLimitMemory && limits.memory_bytes != 0) limit(RLIMIT_DATA, limits.memory_bytes);
    // Far up, where a library that closes the first thousand descriptors does not reach.
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < 64) return;
    const int high = fcntl(descriptor_, F_DUPFD_CLOEXEC, static_cast<int>(files.rlim_cur) - 32);
    if (high < 0) return;
    close(descriptor_);
    descriptor_ = high;
  }

  Step begin(Step::What what, std::size_t index) {
    Reply reply{.kind = Reply::Kind::kLoading};
    reply.step = {what, index};
    say(reply);
    return reply.step;
  }

  void end(const Step& step, Check rejection, std::optional<ModuleFinding> module = std::nullopt) {
    Reply reply{.kind = Reply::Kind::kLoaded};
    reply.step = step;
    reply.rejection = std::move(rejection);
    reply.module = std::move(module);
    say(reply);
  }

  void load_driver() {
    if (request_.driver.empty()) return;
    const Step step = begin(Step::What::kDriver, 0);
    const Result<void*> mapped = map_library(request_.driver, BindingMode::kNow);
    if (!mapped.ok()) return end(step, mapped.rejection());
    if (!request_.query_driver) return end(step, std::nullopt);
    const Result<DriverFinding> found = query_driver(*mapped, request_.driver);
    if (!found.ok()) return end(step, found.rejection());
    Reply devices{.kind = Reply::Kind::kDevices};
    devices.cuda_driver_version = found->version;
    devices.devices = found->devices;
    say(devices);
    end(step, std::nullopt);
  }

  void load_python() {
    if (!request_.python) return;
    const Step step = begin(Step::What::kPython, 0);
    TorchInstallation torch;
    torch.library_folder = request_.torch_folder;
    end(step, preload_python(*request_.python, holds_torch_ ? &torch : nullptr));
  }

  void load_torch() {
    if (request_.torch_folder.empty()) return;
    const Step step = begin(Step::What::kTorch, 0);
    TorchInstallation torch;
    torch.library_folder = request_.torch_folder;
    torch.version = request_.torch_version;
    Check refused = preload_torch(torch, request_.torch_with_cuda);
    holds_torch_ = !refused;
    end(step, std::move(refused));
  }

  void load_module(std::size_t index) {
    const Step step = begin(Step::What::kModule, index);
    ModuleFinding finding;
    finding.path = request_.modules[index];
    const Result<PluginModule> opened = open_module(finding.path);
    if (!opened.ok()) return end(step, opened.rejection(), std::move(finding));
    modules_[index] = *opened;
    const OpmuxModule& module = *opened->module;
    finding.name = module.name;
    finding.version = module.version;
    finding.build_identity = module.build_identity;
    for (std::uint32_t i = 0; i < module.operator_count; ++i) {
      const OpmuxOperatorEntry& entry = module.operators[i];
      finding.operators.push_back({entry.name, entry.schema, entry.device_type, entry.properties});
    }
    Check rejection;
    if (module.start_listening != nullptr) {
      rejection =
          ask(finding.path, "start_listening", [&module] { return module.start_listening(); });
      if (!rejection && module.list_registrations != nullptr)
        listening_.push_back({index, &module});
    }
    end(step, std::move(rejection), std::move(finding));
  }

  void load_library(std::size_t index) {
    const Request::Library& library = request_.libraries[index];
    const Step step = begin(Step::What::kLibrary, index);
    const Result<void*> mapped = map_library(
        library.path, library.python_extension ? BindingMode::kLazy : BindingMode::kNow);
    // Said before the library's step is over: what a listening module does now is due to it.
    if (mapped.ok()) {
      libraries_[index] = *mapped;
      say_new_registrations();
    }
    end(step, mapped.ok() ? Check() : Check(mapped.rejection()));
    stop_when_exhausted(step);
  }

  // As the process that serves will do it, so that a refusal is known before traffic.
  void try_binding(std::size_t index) {
    const ProbeBinding& item = request_.bindings[index];
    const auto module = modules_.find(item.module);
    const auto library = libraries_.find(item.library);
    // What was refused before says so itself.
    if (module == modules_.end() || library == libraries_.end()) return;
    const Step step = begin(Step::What::kBinding, index);
    const Result<std::vector<void*>> symbols =
        resolve_symbols(library->second, request_.libraries[item.library].path, item.binding);
    if (!symbols.ok()) return end(step, symbols.rejection());
    const Result<OpmuxBound> bound = bind_foreign(module->second, item.binding, *symbols);
    end(step, bound.ok() ? Check() : Check(bound.rejection()));
  }

  // Calls a function of a module; its refusal is a rejection of the module.
  template <class Call>
  Check ask(const std::filesystem::path& path, const std::string& function, Call call) {
    std::string found;
    take_module_error();
    try {
      const OpmuxStatus status = call();
      if (status == OPMUX_OK) return std::nullopt;
      found = "status " + std::to_string(status) + ": " + take_module_error();
    } catch (const std::exception& error) {
      found = std::string("it threw: ") + error.what();
    } catch (...) {
      found = "it threw something that is no std::exception";
    }
    return reject(rules::kLoaderModuleRefused, printable(path.native()),
                  function + " returns OPMUX_OK", printable(found));
  }

  void say_new_registrations() {
    Reply reply{.kind = Reply::Kind::kRegistrations};
    for (const Listener& listener : listening_) {
      const auto visit = [this, &reply](const OpmuxRegistration& registration) {
        if (registration.schema == nullptr) return;
        Registration found{real_path(registration.library), registration.schema, {}};
        for (std::uint32_t i = 0; i < registration.dispatch_key_count; ++i) {
          found.dispatch_keys.emplace_back(registration.dispatch_keys[i]);
        }
        const auto [said, added] = said_.try_emplace({found.library, found.schema});
        if (!added && said->second == found.dispatch_keys) return;
        said->second = found.dispatch_keys;
        reply.registrations.push_back(std::move(found));
      };
      Check rejection = ask(request_.modules[listener.index], "list_registrations", [&] {
        return listener.module->list_registrations(
            [](void* context, const OpmuxRegistration* registration) {
              (*static_cast<decltype(visit)*>(context))(*registration);
            },
            const_cast<void*>(static_cast<const void*>(&visit)));
      });
      if (rejection) {
        Reply refused{.kind = Reply::Kind::kRefused};
        refused.step = {Step::What::kModule, listener.index};
        refused.rejection = std::move(rejection);
        say(refused);
      }
    }
    if (!reply.registrations.empty()) say(reply);
  }

  // Resolved once per file; the module names it as the dynamic linker does.
  const std::string& real_path(const char* path) {
    auto [entry, added] = real_paths_.try_emplace(path == nullptr ? "" : path);
    if (added) {
      std::error_code error;
      const std::filesystem::path resolved = std::filesystem::canonical(entry->first, error);
      entry->second = error ? entry->first : resolved.native();
    }
    return entry->second;
  }

  // What one library used up would be missed by the next, which would be blamed for it.
  void stop_when_exhausted(const Step& step) {
    Reply reply{.kind = Reply::Kind::kLimit};
    reply.step = step;
    const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
      close(descriptor);
    } else if (errno == EMFILE) {
      reply.text = "open files";
    }
    void* const memory = mmap(nullptr, kSpareMemory, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
      munmap(memory, kSpareMemory);
    } else if (errno == ENOMEM) {
      reply.text = "memory";
    }
    if (reply.text.empty()) return;
    say(reply);
    _exit(0);
  }

  struct Listener {
    std::size_t index;
    const OpmuxModule* module;
  };

  int descriptor_;
  Request request_;
  bool holds_torch_ = false;
  std::vector<Listener> listening_;
  std::map<std::size_t, PluginModule> modules_;  // by their index in the request
  std::map<std::size_t, void*> libraries_;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> said_;
  std::map<std::string, std::string> real_paths_;
};

}  // namespace

void run_probe(int descriptor) {
  signal(SIGPIPE, SIG_IGN);
  Probe(descriptor).run();
  _exit(0);
}

}  // namespace opmux::probing
