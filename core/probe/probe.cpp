// SPDX-License-Identifier: Apache-2.0
#include "core/probe/probe.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/probe/cache.hpp"
#include "core/probe/child_process.hpp"
#include "core/probe/conversation.hpp"
#include "core/probe/ending.hpp"
#include "core/probe/messages.hpp"

namespace opmux {

namespace {

using probing::ChildEnd;
using probing::Conversation;
using probing::Step;

constexpr std::uint64_t kOpenFiles = 4096;
constexpr std::uint64_t kFileBytes = std::uint64_t{16} << 20;
// CPU time beyond the deadline: one busy thread meets the deadline, many meet this limit.
constexpr std::uint64_t kCpuSecondsBeyondDeadline = 5;

// Built from nothing, so that no LD_PRELOAD, LD_LIBRARY_PATH or PYTHONPATH of the host decides what
// the probe loads.
std::vector<std::string> probe_environment() {
  std::vector<std::string> environment{"LANG=C.UTF-8"};
  for (const char* name : {"PATH", "HOME", "TMPDIR", "CUDA_VISIBLE_DEVICES"}) {
    if (const auto value = environment_variable(name)) {
      environment.push_back(std::string(name).append("=").append(*value));
    }
  }
  for (const auto& [name, value] : environment_variables_with_prefix("NVIDIA_")) {
    environment.push_back(std::string(name).append("=").append(value));
  }
  return environment;
}

// Probes one load set. What is found goes into `findings_`; what is refused leaves the rest.
class Prober {
 public:
  Prober(const LoadSet& load_set, const ProbeOptions& options,
         const std::filesystem::path& executable)
      : load_set_(load_set), options_(options), executable_(executable) {
    for (const std::filesystem::path& path : load_set.modules) {
      findings_.modules.push_back({.path = path,
                                   .rejection = {},
                                   .name = {},
                                   .version = {},
                                   .build_identity = {},
                                   .operators = {}});
    }
    for (const ProbeLibrary& library : load_set.libraries) {
      findings_.libraries.push_back({library.path, std::nullopt});
    }
    findings_.bindings.resize(load_set.bindings.size());
  }

  Findings run() {
    // Each round but the last rejects one part of the load set, so it ends.
    while (round()) {
    }
    blame_the_missing_torch();
    forget_rejected_registrations();
    return std::move(findings_);
  }

  // Every part that is not rejected yet is, for the same reason.
  Findings unavailable(const std::string& found) {
    reject_all(found);
    return std::move(findings_);
  }

 private:
  // One process. True when it was ended by a part, which is rejected now, and a rest is left.
  bool round() {
    modules_.clear();
    libraries_.clear();
    bindings_.clear();
    for (std::size_t i = 0; i < findings_.modules.size(); ++i) {
      if (!findings_.modules[i].rejection) modules_.push_back(i);
    }
    for (std::size_t i = 0; i < findings_.libraries.size(); ++i) {
      if (!findings_.libraries[i].rejection) libraries_.push_back(i);
    }
    for (std::size_t i = 0; i < findings_.bindings.size(); ++i) {
      const ProbeBinding& binding = load_set_.bindings[i];
      if (!findings_.bindings[i] && !findings_.modules[binding.module].rejection &&
          !findings_.libraries[binding.library].rejection)
        bindings_.push_back(i);
    }
    const probing::Request request = make_request();
    probing::ChildProcess child;
    child.executable = executable_;
    child.environment = probe_environment();
    child.input = probing::encode_frame(to_json(request));
    child.deadline = options_.deadline;
    report("probing " + std::to_string(libraries_.size()) + " libraries and " +
           std::to_string(modules_.size()) + " plugin modules");
    ++findings_.probes;
    Conversation conversation(modules_.size(), libraries_.size(), bindings_.size());
    const ChildEnd end = run_child(child, [&conversation](std::string_view bytes) {
      return conversation.take(bytes) && !conversation.over();
    });
    if (!conversation.greeted()) {
      reject_all(why_not_greeted(end, conversation));
      return false;
    }
    take_findings(conversation);
    if (conversation.done()) return false;
    probing::Ending ending;
    ending.end = end;
    ending.fault = conversation.fault();
    ending.limit = conversation.limit();
    ending.limits = request.limits;
    ending.deadline = options_.deadline;
    if (!conversation.last_step()) {
      // It greeted and ended before it touched anything of ours.
      reject_all("it ended before the first step: " + explain(ending).found);
      return false;
    }
    blame(*conversation.last_step(), std::move(ending), conversation);
    return std::any_of(findings_.modules.begin(), findings_.modules.end(),
                       [](const auto& module) { return !module.rejection; }) ||
           std::any_of(findings_.libraries.begin(), findings_.libraries.end(),
                       [](const auto& library) { return !library.rejection; });
  }

  probing::Request make_request() const {
    probing::Request request;
    request.parent = getpid();
    request.limits.memory_bytes = options_.memory_limit;
    request.limits.cpu_seconds =
        static_cast<std::uint64_t>(
            std::chrono::ceil<std::chrono::seconds>(options_.deadline).count()) +
        kCpuSecondsBeyondDeadline;
    request.limits.open_files = kOpenFiles;
    request.limits.file_bytes = kFileBytes;
    if (!findings_.driver_rejection) request.driver = load_set_.driver;
    request.query_driver = !load_set_.stub_driver && !devices_known_;
    if (!findings_.python_rejection) request.python = load_set_.python;
    if (load_set_.torch && !findings_.torch_rejection) {
      request.torch_folder = load_set_.torch->library_folder;
      request.torch_version = load_set_.torch->version;
      request.torch_with_cuda = load_set_.torch_with_cuda;
    }
    for (const std::size_t i : modules_) request.modules.push_back(load_set_.modules[i]);
    for (const std::size_t i : libraries_) {
      request.libraries.push_back(
          {load_set_.libraries[i].path, load_set_.libraries[i].python_extension});
    }
    const auto position = [](const std::vector<std::size_t>& indexes, std::size_t index) {
      return static_cast<std::size_t>(std::find(indexes.begin(), indexes.end(), index) -
                                      indexes.begin());
    };
    for (const std::size_t i : bindings_) {
      ProbeBinding binding = load_set_.bindings[i];
      binding.module = position(modules_, binding.module);
      binding.library = position(libraries_, binding.library);
      request.bindings.push_back(std::move(binding));
    }
    return request;
  }

  std::string why_not_greeted(const ChildEnd& end, const Conversation& conversation) const {
    if (end.how == ChildEnd::How::kNotStarted) return std::strerror(end.code);
    if (!conversation.fault().empty()) return conversation.fault();
    switch (end.how) {
      case ChildEnd::How::kExited:
        return "it exited with code " + std::to_string(end.code) + " without a greeting";
      case ChildEnd::How::kSignalled:
        return "it was ended by signal " + std::to_string(end.code) + " without a greeting";
      default:
        return "it did not greet within the deadline";
    }
  }

  void reject_all(const std::string& found) {
    const Rejection rejection =
        reject(rules::kProbeUnavailable,
               executable_.empty() ? "opmux-probe" : printable(executable_.native()),
               std::string("opmux-probe of version ") + probing::opmux_version(), printable(found));
    for (ModuleFinding& module : findings_.modules) {
      if (!module.rejection) module.rejection = rejection;
    }
    for (LibraryFinding& library : findings_.libraries) {
      if (!library.rejection) library.rejection = rejection;
    }
    findings_.registrations.clear();
    report(to_string(rejection));
  }

  void take_findings(Conversation& conversation) {
    if (conversation.driver_rejection) {
      findings_.driver_rejection = std::move(conversation.driver_rejection);
      report(to_string(*findings_.driver_rejection));
    }
    if (conversation.python_rejection) {
      findings_.python_rejection = std::move(conversation.python_rejection);
      report(to_string(*findings_.python_rejection));
    }
    if (conversation.torch_rejection) {
      findings_.torch_rejection = std::move(conversation.torch_rejection);
      report(to_string(*findings_.torch_rejection));
    }
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      if (!conversation.modules[i]) continue;
      ModuleFinding& module = findings_.modules[modules_[i]];
      module = std::move(*conversation.modules[i]);
      module.path = load_set_.modules[modules_[i]];
      if (module.rejection) report(to_string(*module.rejection));
    }
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      if (!conversation.libraries[i]) continue;
      LibraryFinding& library = findings_.libraries[libraries_[i]];
      library.rejection = std::move(conversation.libraries[i]);
      report(to_string(*library.rejection));
    }
    for (std::size_t i = 0; i < bindings_.size(); ++i) {
      if (!conversation.bindings[i]) continue;
      std::optional<Rejection>& binding = findings_.bindings[bindings_[i]];
      binding = std::move(conversation.bindings[i]);
      report(to_string(*binding));
    }
    if (conversation.devices_known) {
      devices_known_ = true;
      findings_.cuda_driver_version = conversation.cuda_driver_version;
      findings_.devices = std::move(conversation.devices);
    }
    findings_.registrations = conversation.registrations;
  }

  void blame(const Step& step, probing::Ending ending, const Conversation& conversation) {
    switch (step.what) {
      case Step::What::kDriver:
        ending.subject = printable(load_set_.driver.native());
        findings_.driver_rejection = explain(ending);
        report(to_string(*findings_.driver_rejection));
        return;
      case Step::What::kPython:
        ending.subject = printable(load_set_.python->path.native());
        findings_.python_rejection = explain(ending);
        report(to_string(*findings_.python_rejection));
        return;
      case Step::What::kBinding: {
        const std::size_t index = bindings_[step.index];
        const ProbeBinding& binding = load_set_.bindings[index];
        ending.subject = printable(load_set_.libraries[binding.library].path.native()) + ": " +
                         printable(binding.binding.symbols.front());
        findings_.bindings[index] = explain(ending);
        report(to_string(*findings_.bindings[index]));
        return;
      }
      case Step::What::kTorch:
        ending.subject = printable((load_set_.torch->library_folder / "libtorch_cpu.so").native());
        findings_.torch_rejection = explain(ending);
        report(to_string(*findings_.torch_rejection));
        return;
      case Step::What::kModule: {
        ModuleFinding& module = findings_.modules[modules_[step.index]];
        ending.subject = printable(module.path.native());
        module.rejection = explain(ending);
        report(to_string(*module.rejection));
        return;
      }
      case Step::What::kLibrary: {
        const std::size_t index = libraries_[step.index];
        LibraryFinding& library = findings_.libraries[index];
        ending.subject = printable(library.path.native());
        const auto name_space = probing::conflicting_namespace(ending.end.output);
        library.rejection = name_space && ending.end.how == ChildEnd::How::kSignalled
                                ? conflict(*name_space, index, ending, conversation)
                                : explain(ending);
        report(to_string(*library.rejection));
        return;
      }
    }
  }

  Rejection conflict(const std::string& name_space, std::size_t index,
                     const probing::Ending& ending, const Conversation& conversation) const {
    const ProbeLibrary& later = load_set_.libraries[index];
    std::string earlier;
    for (const Registration& registration : conversation.registrations) {
      if (!registration.schema.starts_with(name_space + "::")) continue;
      earlier = described(registration.library);
      break;
    }
    if (earlier.empty()) {
      const std::string place = probing::earlier_registration(ending.end.output);
      earlier = place.empty() ? "an earlier library" : "an earlier library (" + place + ")";
    }
    return reject(
        rules::kProbeConflict, ending.subject,
        "namespace `" + printable(name_space) + "` defined once, by " + printable(earlier),
        printable(later.label.empty() ? "this library" : later.label) +
            ", which stands later in the load set, defines it, too");
  }

  std::string described(const std::string& path) const {
    for (const ProbeLibrary& library : load_set_.libraries) {
      if (library.path == path && !library.label.empty()) {
        return library.label + " (" + path + ")";
      }
    }
    return path;
  }

  // Without torch, or without a driver, whatever needs it fails to be mapped; the reason is the
  // better answer.
  void blame_the_missing_torch() {
    const auto improve = [this](std::optional<Rejection>& rejection) {
      if (!rejection || rejection->rule != rules::kLoaderOpenFailed.id) return;
      const auto names = [&rejection](std::string_view library) {
        return rejection->found.find(library) != std::string::npos;
      };
      if (findings_.python_rejection &&
          (names("libpython") || names("libtorch_python") || names("undefined symbol: Py") ||
           names("undefined symbol: _Py"))) {
        rejection = findings_.python_rejection;
      } else if (findings_.torch_rejection && (names("libtorch") || names("libc10"))) {
        rejection = findings_.torch_rejection;
      } else if (findings_.driver_rejection && names("libcuda.so")) {
        rejection = findings_.driver_rejection;
      }
    };
    for (ModuleFinding& module : findings_.modules) improve(module.rejection);
    for (LibraryFinding& library : findings_.libraries) improve(library.rejection);
  }

  void forget_rejected_registrations() {
    std::erase_if(findings_.registrations, [this](const Registration& registration) {
      return std::any_of(findings_.libraries.begin(), findings_.libraries.end(),
                         [&registration](const LibraryFinding& library) {
                           return library.rejection && library.path == registration.library;
                         });
    });
  }

  void report(const std::string& event) const {
    if (options_.progress) options_.progress(event);
  }

  const LoadSet& load_set_;
  const ProbeOptions& options_;
  const std::filesystem::path& executable_;
  Findings findings_;
  bool devices_known_ = false;
  // Of the running round: request index -> load set index.
  std::vector<std::size_t> modules_;
  std::vector<std::size_t> libraries_;
  std::vector<std::size_t> bindings_;
};

std::filesystem::path chosen_executable(const ProbeOptions& options) {
  return options.executable.empty() ? find_probe_executable() : options.executable;
}

// The digests come from a second thread while the probe runs, or from this one when there is none.
std::future<probing::Digests> digest_beside(const LoadSet& load_set) {
  try {
    return std::async(std::launch::async, [&load_set] { return probing::digest_files(load_set); });
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred,
                      [&load_set] { return probing::digest_files(load_set); });
  }
}

}  // namespace

Findings probe(const LoadSet& load_set, const ProbeOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::filesystem::path executable = chosen_executable(options);
  Findings findings;
  if (executable.empty()) {
    findings = Prober(load_set, options, executable).unavailable("it is not installed");
  } else if (options.cache_folder.empty()) {
    findings = Prober(load_set, options, executable).run();
  } else {
    const std::string key = probing::findings_key(load_set, executable, options.memory_limit);
    if (auto cached =
            probing::read_findings(options.cache_folder, key, load_set, options.verify_content)) {
      findings = std::move(*cached);
    } else {
      std::future<probing::Digests> digests = digest_beside(load_set);
      findings = Prober(load_set, options, executable).run();
      const probing::Digests finished = digests.get();
      // A file that was replaced meanwhile was probed or hashed in either state.
      if (probing::worth_keeping(findings) &&
          key == probing::findings_key(load_set, executable, options.memory_limit)) {
        probing::write_findings(options.cache_folder, key, findings, finished);
      }
    }
  }
  findings.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return findings;
}

std::optional<Findings> cached_findings(const LoadSet& load_set, const ProbeOptions& options) {
  const std::filesystem::path executable = chosen_executable(options);
  if (executable.empty() || options.cache_folder.empty()) return std::nullopt;
  return probing::read_findings(options.cache_folder,
                                probing::findings_key(load_set, executable, options.memory_limit),
                                load_set, options.verify_content);
}

}  // namespace opmux
