// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/lock_facts.hpp"

#include <elf.h>
#include <sys/utsname.h>

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

#include "core/base/hash.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/elf/elf.hpp"
#include "core/runtime/version.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// From here on hashing takes a moment that people should know about.
constexpr std::uint64_t kLargeFile = std::uint64_t{64} * 1024 * 1024;

Rejection incomplete(const fs::path& path, std::string expected, std::string found) {
  return reject(rules::kLockIncomplete, printable(path.native()), std::move(expected),
                std::move(found));
}

std::string machine_name() {
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : "unknown";
}

std::string machine_name(std::uint16_t machine) {
  if (machine == EM_X86_64) return "x86_64";
  if (machine == EM_AARCH64) return "aarch64";
  return std::to_string(machine);
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? path : real;
}

// Nothing when `path` is not below `root`.
std::optional<std::string> path_inside(const fs::path& path, const fs::path& root) {
  if (root.empty()) return std::nullopt;
  const fs::path relative = path.lexically_relative(resolved(root));
  if (relative.empty() || *relative.begin() == "..") return std::nullopt;
  return relative.generic_string();
}

// The newest version behind `prefix`, "2.34" of GLIBC_2.34.
std::string newest_need(const elf::ElfFile& file, std::string_view prefix) {
  std::optional<Version> newest;
  std::string text;
  for (const elf::VersionNeed& need : file.version_needs) {
    if (!need.version.starts_with(prefix)) continue;
    const std::string number = need.version.substr(prefix.size());
    const Result<Version> version = Version::parse(number);
    if (!version.ok() || (newest && version->compare(*newest) <= 0)) continue;
    newest = *version;
    text = number;
  }
  return text;
}

class Collector {
 public:
  explicit Collector(const LockContext& context) : context_(context) {}

  Result<LockFacts> run() {
    lock::Lock& lock = facts_.lock;
    lock.opmux = kVersion;
    lock.machine = machine_name();
    if (Check wrong = add_torch()) return *std::move(wrong);
    for (const RouteRule& rule : context_.policy->rules())
      lock.routes.push_back({rule.pattern, rule.providers});
    if (Check wrong = add_manifests()) return *std::move(wrong);
    for (const ProviderPlan& provider : context_.plan->providers) {
      if (!provider.is_routed || provider.linked_in) continue;
      if (Check wrong = add_files(provider)) return *std::move(wrong);
    }
    lock::sort(lock);
    return std::move(facts_);
  }

 private:
  Result<HashedFile> hash(const fs::path& path) {
    const auto known = hashed_.find(path);
    if (known != hashed_.end()) return known->second;
    std::error_code error;
    const std::uint64_t size = fs::file_size(path, error);
    if (!error && size >= kLargeFile && context_.progress)
      context_.progress("hashing " + path.filename().string() + ", " +
                        std::to_string(size / 1'000'000) + " MB");
    std::optional<HashedFile> hashed = hash_file(path);
    if (!hashed)
      return incomplete(path, "a file that can be read and does not change meanwhile",
                        error ? error.message() : "one that cannot be read or that changed");
    return hashed_.emplace(path, *std::move(hashed)).first->second;
  }

  Check add_torch() {
    if (!context_.plan->torch) return std::nullopt;
    const TorchInstallation& torch = *context_.plan->torch;
    Result<HashedFile> library = hash(torch.library_folder / "libtorch_cpu.so");
    if (!library.ok()) return std::move(library).rejection();
    facts_.lock.torch = lock::Torch{torch.version, torch.cuda, torch.python, library->identity.size,
                                    library->sha256};
    return std::nullopt;
  }

  Check add_manifests() {
    std::set<std::string> names;
    for (const ManifestSet::File& file : context_.manifests->files) {
      if (file.state != "read") continue;
      if (!names.insert(file.name).second)
        return incomplete(file.path, "one manifest of the name " + file.name,
                          "another one was read, too");
      facts_.lock.manifests.push_back({file.name, file.sha256});
    }
    return std::nullopt;
  }

  Check add_files(const ProviderPlan& provider) {
    for (const LibraryPlan& library : provider.libraries) {
      for (const CandidatePlan& candidate : library.candidates) {
        if (!candidate.found) continue;
        if (Check wrong = add_library(provider, *candidate.found)) return wrong;
        // What was checked before is what was hashed now.
        const FileIdentity& now = facts_.identities.at(candidate.found->path);
        if (!(now == candidate.identity))
          return reject(rules::kLoaderChanged, printable(candidate.found->path.native()),
                        "the file that was found (" + to_string(candidate.identity) + ")",
                        to_string(now));
      }
    }
    return provider.module.empty() ? std::nullopt : add_module(provider);
  }

  Check add_library(const ProviderPlan& provider, const FoundLibrary& found) {
    lock::File file;
    file.role = "library";
    std::optional<std::string> inside;
    if (found.distribution.empty()) {
      file.origin = "manifest";
      file.name = provider.manifest->provider;
      inside = path_inside(found.path, provider.manifest->file.parent_path());
    } else {
      file.origin = "distribution";
      file.name = found.distribution;
      file.version = found.version;
      const Result<Distribution> distribution =
          find_distribution(found.distribution, context_.environments->environments);
      if (distribution.ok()) {
        inside = path_inside(found.path, distribution->site_packages);
        if (!inside && distribution->editable_root)
          inside = path_inside(found.path, *distribution->editable_root);
      }
    }
    if (!inside)
      return incomplete(found.path, "a library inside its distribution or manifest's folder",
                        "one elsewhere");
    file.path = *std::move(inside);
    return add_file(std::move(file), provider, found.path);
  }

  Check add_module(const ProviderPlan& provider) {
    lock::File file;
    file.role = "module";
    const fs::path folder = resolved(provider.module.parent_path());
    if (folder == resolved(context_.installed_modules)) {
      file.origin = "installation";
    } else if (!context_.cached_modules.empty() && folder == resolved(context_.cached_modules)) {
      file.origin = "cache";
    } else {
      file.origin = "manifest";
      file.name = provider.manifest->provider;
    }
    file.path = provider.module.filename().string();
    return add_file(std::move(file), provider, provider.module);
  }

  Check add_file(lock::File file, const ProviderPlan& provider, const fs::path& path) {
    Result<HashedFile> hashed = hash(path);
    if (!hashed.ok()) return std::move(hashed).rejection();
    facts_.identities[path] = hashed->identity;
    facts_.labels[{provider.manifest->provider, path}] = lock::label_of(file);
    file.size = hashed->identity.size;
    file.sha256 = hashed->sha256;
    const Result<elf::ElfFile> bytes = elf::read(path, elf::Detail::kDependencies);
    if (bytes.ok()) {
      file.machine = machine_name(bytes->machine);
      file.glibc = newest_need(*bytes, "GLIBC_");
      file.libstdcxx = newest_need(*bytes, "GLIBCXX_");
    }
    file.python = extension_python_version(path);
    std::vector<lock::File>& files = facts_.lock.files;
    if (std::find(files.begin(), files.end(), file) == files.end())
      files.push_back(std::move(file));
    return std::nullopt;
  }

  const LockContext& context_;
  LockFacts facts_;
  std::map<fs::path, HashedFile> hashed_;
};

lock::Contract contract_of(const Alternative& alternative) {
  lock::Contract contract;
  contract.kind = contract_name(alternative.contract);
  if (const auto* dispatcher = std::get_if<DispatcherContract>(&alternative.contract)) {
    contract.schema = dispatcher->schema_text;
    contract.dispatch_key = dispatcher->dispatch_key;
  } else if (const auto* symbols = std::get_if<DirectSymbolContract>(&alternative.contract)) {
    contract.symbols = symbols->required_symbols;
  } else {
    contract.operator_name = std::get<ModuleContract>(alternative.contract).operator_name;
  }
  return contract;
}

std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string label_of(const Verdict& verdict, const LockContext& context) {
  lock::Binding binding;
  binding.operator_name = verdict.operator_name;
  binding.device = verdict.device;
  binding.provider = context.manifests->providers[verdict.provider].provider;
  return lock::label_of(binding);
}

bool is_routed(const Verdict& verdict, const LockContext& context) {
  const std::vector<std::size_t> order = context.policy->order(verdict.operator_name);
  return std::find(order.begin(), order.end(), verdict.provider) != order.end();
}

std::string label_in(const LockFacts& facts, const std::string& provider, const fs::path& path) {
  const auto label = facts.labels.find({provider, path});
  return label == facts.labels.end() ? std::string() : label->second;
}

lock::Binding binding_of(const Verdict& verdict, const LockFacts& facts,
                         const LockContext& context) {
  const ProviderPlan& provider = context.plan->providers[verdict.provider];
  lock::Binding binding;
  binding.operator_name = verdict.operator_name;
  binding.device = verdict.device;
  binding.provider = provider.manifest->provider;
  if (verdict.library) binding.library = label_in(facts, binding.provider, verdict.library->path);
  if (!provider.linked_in) binding.module = label_in(facts, binding.provider, provider.module);
  binding.contract = contract_of(*verdict.alternative);
  return binding;
}

}  // namespace

Result<LockFacts> lock_inputs(const LockContext& context) { return Collector(context).run(); }

void add_outcome(LockFacts& facts, const LockContext& context, const std::vector<Verdict>& verdicts,
                 const Findings& findings) {
  lock::Lock& lock = facts.lock;
  bool needs_driver = false;
  for (const OperatorDeclaration& declaration : context.manifests->declarations) {
    std::map<std::string, std::uint64_t> places;
    for (const std::size_t provider : context.policy->order(declaration.name)) {
      for (const Verdict& verdict : verdicts) {
        if (verdict.rejection || verdict.provider != provider ||
            verdict.operator_name != declaration.name)
          continue;
        lock::Binding binding = binding_of(verdict, facts, context);
        binding.place = places[binding.device]++;
        needs_driver |= binding.device == "cuda";
        lock.bindings.push_back(std::move(binding));
      }
    }
  }
  lock.driver.stub = !context.host->stub_driver.empty();
  if (needs_driver && lock.torch) lock.driver.floor = lock.torch->cuda;
  if (!lock.driver.stub && findings.cuda_driver_version > 0)
    lock.driver.seen = cuda_version(findings.cuda_driver_version);
  lock::sort(lock);
}

lock::Circumstances circumstances_of(const LockContext& context,
                                     const std::vector<Verdict>& verdicts) {
  lock::Circumstances circumstances;
  circumstances.has_driver = !context.host->driver.empty() || !context.host->stub_driver.empty();
  for (const Verdict& verdict : verdicts) {
    std::string& refusal = circumstances.refusals[label_of(verdict, context)];
    if (!is_routed(verdict, context)) {
      refusal = "its route leaves the provider out";
    } else if (verdict.rejection) {
      refusal = to_string(*verdict.rejection);
    }
  }
  return circumstances;
}

}  // namespace opmux
