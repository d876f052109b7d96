// SPDX-License-Identifier: Apache-2.0
#include "core/probe/cache.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/files.hpp"
#include "core/base/hash.hpp"
#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux::probing {

namespace {

constexpr std::string_view kHeader = "opmux findings 1 ";  // then the checksum and a line end
constexpr std::size_t kChecksumLength = 64;
constexpr std::size_t kFileCap = std::size_t{64} << 20;

std::filesystem::path findings_folder(const std::filesystem::path& cache_folder) {
  return cache_folder / "findings";
}

// At most `bytes` from the start of a file that the kernel makes up while it is read.
std::string first_bytes(const char* path, std::size_t bytes) {
  std::string content(bytes, '\0');
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  const ssize_t count = read(descriptor, content.data(), content.size());
  close(descriptor);
  content.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return content;
}

// What decides whether an instruction is there. Not /proc/cpuinfo: reading it can take longer than
// everything else here.
std::string cpu_features() {
  std::string result;
#if defined(__x86_64__)
  constexpr std::pair<unsigned, unsigned> kLeaves[] = {{0, 0}, {1, 0},   {7, 0},
                                                       {7, 1}, {0xd, 1}, {0x80000001, 0}};
  for (const auto& [leaf, part] : kLeaves) {
    unsigned registers[4] = {};
    __get_cpuid_count(leaf, part, &registers[0], &registers[1], &registers[2], &registers[3]);
    if (leaf == 1) registers[1] = 0;  // holds the number of the core that runs this
    for (const unsigned value : registers) result += std::to_string(value) + " ";
  }
#else
  result = std::to_string(getauxval(AT_HWCAP)) + " " + std::to_string(getauxval(AT_HWCAP2));
#endif
  return result;
}

void add_file(std::string& text, std::string_view role, const std::filesystem::path& path) {
  FileIdentity identity;
  text += role;
  text += '\0' + path.native() + '\0';
  text += file_identity(path, identity) ? to_string(identity) : "none";
  text += '\n';
}

void add(std::string& text, std::string_view role, std::string_view value) {
  text += role;
  text += '\0';
  text += value;
  text += '\n';
}

// Empty, or why nobody but this user can have written what is open here.
std::string untrusted(const struct stat& status) {
  if (status.st_uid != geteuid()) return "it belongs to user " + std::to_string(status.st_uid);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to it";
  return {};
}

struct ReadResult {
  std::string content, fault;
  bool exists = false;
};

ReadResult read_trusted(const std::filesystem::path& folder, const std::string& name) {
  ReadResult result;
  const int folder_descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_descriptor < 0) return result;
  const int descriptor =
      openat(folder_descriptor, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  result.exists = descriptor >= 0 || errno != ENOENT;
  struct stat status {};
  if (descriptor < 0) {
    result.fault = std::strerror(errno);
  } else if (fstat(folder_descriptor, &status) != 0 || !untrusted(status).empty()) {
    result.fault = "its folder is not trusted: " + untrusted(status);
  } else if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    result.fault = "it is no regular file";
  } else if (result.fault = untrusted(status); result.fault.empty()) {
    if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) > kFileCap) {
      result.fault = "it is too large";
    } else {
      result.content.resize(static_cast<std::size_t>(status.st_size));
      std::size_t done = 0;
      while (done < result.content.size()) {
        const ssize_t count =
            read(descriptor, result.content.data() + done, result.content.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        done += static_cast<std::size_t>(count);
      }
      result.content.resize(done);
    }
  }
  if (descriptor >= 0) close(descriptor);
  close(folder_descriptor);
  return result;
}

bool same_shape(const Findings& findings, const LoadSet& load_set) {
  return findings.modules.size() == load_set.modules.size() &&
         findings.libraries.size() == load_set.libraries.size() &&
         findings.bindings.size() == load_set.bindings.size() &&
         std::equal(load_set.modules.begin(), load_set.modules.end(), findings.modules.begin(),
                    [](const auto& path, const auto& found) { return path == found.path; }) &&
         std::equal(
             load_set.libraries.begin(), load_set.libraries.end(), findings.libraries.begin(),
             [](const auto& library, const auto& found) { return library.path == found.path; });
}

}  // namespace

std::string findings_key(const LoadSet& load_set, const std::filesystem::path& executable,
                         std::uint64_t memory_limit) {
  std::string text;
  add(text, "protocol", std::to_string(kProtocolVersion));
  add(text, "version", opmux_version());
  add_file(text, "probe", executable);
  add(text, "memory", std::to_string(memory_limit));
  if (load_set.torch) {
    add(text, "torch", load_set.torch->version);
    for (const char* name :
         {"libc10.so", "libtorch_cpu.so", "libtorch.so", "libc10_cuda.so", "libtorch_cuda.so"}) {
      add_file(text, "torch", load_set.torch->library_folder / name);
    }
    add(text, "cuda", load_set.torch_with_cuda ? "1" : "0");
  }
  if (load_set.python) {
    add_file(text, "libpython", load_set.python->path);
    if (load_set.torch)
      add_file(text, "torch", load_set.torch->library_folder / "libtorch_python.so");
  }
  if (!load_set.driver.empty()) {
    add_file(text, load_set.stub_driver ? "stub" : "driver", load_set.driver);
    add(text, "driver", first_bytes("/proc/driver/nvidia/version", 4096));
    add(text, "devices", environment_variable("CUDA_VISIBLE_DEVICES").value_or("all"));
  }
  for (const std::filesystem::path& module : load_set.modules) add_file(text, "module", module);
  for (const ProbeLibrary& library : load_set.libraries) {
    add_file(text, library.python_extension ? "python" : "library", library.path);
    add(text, "label", library.label);
  }
  for (const ProbeBinding& binding : load_set.bindings) add(text, "binding", binding_text(binding));
  add(text, "cpu", cpu_features());
  // What the libraries need beyond the load set comes from the system's folders.
  add_file(text, "linker", "/etc/ld.so.cache");
  return sha256(text);
}

std::string findings_file_text(const Findings& findings, const Digests& digests) {
  const std::string payload = to_json(findings, digests);
  return std::string(kHeader) + sha256(payload) + "\n" + payload;
}

std::optional<Findings> parse_findings_file(std::string_view content, Digests& digests,
                                            std::string& fault) {
  constexpr std::size_t kStart = kHeader.size() + kChecksumLength + 1;
  if (content.size() < kStart || !content.starts_with(kHeader) || content[kStart - 1] != '\n') {
    fault = "it does not begin as one";
    return std::nullopt;
  }
  const std::string_view payload = content.substr(kStart);
  if (sha256(payload) != content.substr(kHeader.size(), kChecksumLength)) {
    fault = "its checksum is wrong";
    return std::nullopt;
  }
  return parse_findings(payload, digests, fault);
}

Digests digest_files(const LoadSet& load_set) {
  Digests digests;
  for (const std::filesystem::path& module : load_set.modules) {
    digests.push_back(sha256_file(module).value_or(""));
  }
  for (const ProbeLibrary& library : load_set.libraries) {
    digests.push_back(sha256_file(library.path).value_or(""));
  }
  return digests;
}

std::optional<Findings> read_findings(const std::filesystem::path& cache_folder,
                                      const std::string& key, const LoadSet& load_set,
                                      bool verify_content) {
  const std::filesystem::path folder = findings_folder(cache_folder);
  const std::string name = key + ".json";
  ReadResult file = read_trusted(folder, name);
  if (!file.exists) return std::nullopt;
  Digests digests;
  std::optional<Findings> findings;
  if (file.fault.empty()) findings = parse_findings_file(file.content, digests, file.fault);
  if (findings && !same_shape(*findings, load_set)) {
    file.fault = "it is of another load set";
  } else if (findings && verify_content && digests != digest_files(load_set)) {
    file.fault = "a file's content is not what was probed";
  }
  if (file.fault.empty()) return findings;
  log::debug("findings cache: " + printable((folder / name).native()) +
             " is ignored: " + printable(file.fault));
  return std::nullopt;
}

bool worth_keeping(const Findings& findings) {
  const auto passing = [](const std::optional<Rejection>& rejection) {
    if (!rejection) return false;
    // SIGKILL comes from outside: from the kernel when memory is short, or from an operator.
    return rejection->rule == rules::kProbeDeadline.id ||
           rejection->rule == rules::kProbeUnavailable.id ||
           (rejection->rule == rules::kProbeSignal.id &&
            rejection->found.find("SIGKILL") != std::string::npos);
  };
  return !passing(findings.python_rejection) && !passing(findings.torch_rejection) &&
         !passing(findings.driver_rejection) &&
         std::none_of(findings.modules.begin(), findings.modules.end(),
                      [&](const auto& module) { return passing(module.rejection); }) &&
         std::none_of(findings.libraries.begin(), findings.libraries.end(),
                      [&](const auto& library) { return passing(library.rejection); }) &&
         std::none_of(findings.bindings.begin(), findings.bindings.end(), passing);
}

void write_findings(const std::filesystem::path& cache_folder, const std::string& key,
                    const Findings& findings, const Digests& digests) {
  const std::filesystem::path folder = findings_folder(cache_folder);
  std::string fault;
  std::error_code error;
  std::filesystem::create_directories(cache_folder.parent_path(), error);
  for (const std::filesystem::path& level : {cache_folder, folder}) {
    if (mkdir(level.c_str(), S_IRWXU) != 0 && errno != EEXIST) fault = std::strerror(errno);
  }
  if (fault.empty()) {
    const std::filesystem::path file = folder / (key + ".json");
    fault = write_file_atomically(file, findings_file_text(findings, digests));
    if (fault.empty()) chmod(file.c_str(), S_IRUSR | S_IWUSR);
  }
  if (!fault.empty()) {
    log::warn("findings are not cached in " + printable(folder.native()) + ": " + printable(fault));
  }
}

}  // namespace opmux::probing
