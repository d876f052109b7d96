// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/lock/lock.hpp"

namespace opmux::lock {
namespace {

// "13.0" as numbers; what is no number counts as 0.
std::pair<int, int> version_of(const std::string& text) {
  std::pair<int, int> version{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, version.first);
  if (error == std::errc{} && stop != end && *stop == '.')
    std::from_chars(stop + 1, end, version.second);
  return version;
}

std::string text_of(const std::optional<Torch>& torch) {
  if (!torch) return "no torch";
  return "torch " + torch->version + " (" +
         (torch->cuda.empty() ? "no CUDA" : "CUDA " + torch->cuda) +
         (torch->python.empty() ? "" : ", Python " + torch->python) + ")";
}

std::string text_of(const Contract& contract) {
  if (contract.kind == "dispatcher") return contract.schema + " under " + contract.dispatch_key;
  if (contract.kind == "direct_symbol") return "functions " + join(contract.symbols, ", ");
  return "the module's own " + contract.operator_name;
}

std::string text_of(const std::vector<Route>& routes) {
  if (routes.empty()) return "no configured route";
  std::vector<std::string> parts;
  for (const Route& route : routes)
    parts.push_back(route.pattern + ": " + join(route.providers, ", "));
  return join(parts, "; ");
}

std::string content_of(std::uint64_t size, const std::string& sha256) {
  return std::to_string(size) + " bytes, SHA-256 " + sha256;
}

std::string or_nothing(const std::string& label) { return label.empty() ? "none" : label; }

std::string route_of(const Binding& binding) {
  return binding.operator_name + " on " + binding.device;
}

class Comparison {
 public:
  Comparison(const Lock& locked, const Lock& current, const Circumstances& circumstances)
      : locked_(locked),
        current_(current),
        refusals_(circumstances.refusals),
        lacks_driver_(!locked.driver.floor.empty() && !circumstances.has_driver) {}

  std::vector<Rejection> run(Scope scope) {
    if (locked_.opmux != current_.opmux)
      add(rules::kLockOpmux, "opmux", locked_.opmux, current_.opmux);
    if (locked_.machine != current_.machine)
      add(rules::kLockMachine, "this machine", locked_.machine, current_.machine);
    compare_driver(scope);
    compare_torch();
    if (locked_.routes != current_.routes)
      add(rules::kLockRoute, "the configured routes", text_of(locked_.routes),
          text_of(current_.routes));
    compare_manifests();
    compare_files();
    if (scope == Scope::kAll) {
      compare_bindings();
      compare_order();
    }
    return std::move(drifts_);
  }

 private:
  void add(const Rule& rule, const std::string& subject, const std::string& expected,
           const std::string& found, std::string hint = {}) {
    // What a lock holds may be anything; it goes to a terminal and a log.
    drifts_.push_back(
        reject(rule, printable(subject), printable(expected), printable(found), std::move(hint)));
  }

  void compare_torch() {
    const std::optional<Torch>& before = locked_.torch;
    const std::optional<Torch>& now = current_.torch;
    // Without a driver no torch is looked for where nothing but CUDA needs it.
    if (lacks_driver_ && !now) return;
    if (text_of(before) != text_of(now)) {
      add(rules::kLockTorch, "torch", text_of(before), text_of(now),
          before
              ? "Name the environment of that torch, or accept " +
                    std::string(now ? "this one" : "its absence") + " with `opmux lock --update`."
              : "Leave out the environment of this torch, or accept it with `opmux lock "
                "--update`.");
    } else if (before && *before != *now) {
      add(rules::kLockTorch, "distribution torch: torch/lib/libtorch_cpu.so",
          content_of(before->size, before->sha256), content_of(now->size, now->sha256),
          "Reinstall torch, or accept this one with `opmux lock --update`.");
    }
  }

  void compare_manifests() {
    std::map<std::string, std::string> now;
    for (const ManifestFile& manifest : current_.manifests) now[manifest.path] = manifest.sha256;
    for (const ManifestFile& manifest : locked_.manifests) {
      const auto found = now.find(manifest.path);
      if (found == now.end()) {
        add(rules::kLockManifest, manifest.path, "SHA-256 " + manifest.sha256,
            "no such manifest is read",
            "Put the manifest back, or accept its absence with `opmux lock --update`.");
        continue;
      }
      if (found->second != manifest.sha256)
        add(rules::kLockManifest, manifest.path, "SHA-256 " + manifest.sha256,
            "SHA-256 " + found->second,
            "Restore the manifest, or accept the change with `opmux lock --update`.");
      now.erase(found);
    }
    for (const auto& [path, sha256] : now)
      add(rules::kLockManifest, path, "no such manifest", "SHA-256 " + sha256,
          "Remove or mask the manifest, or accept it with `opmux lock --update`.");
  }

  static const File* find(const std::vector<File>& files, const std::string& role,
                          const std::string& label) {
    for (const File& file : files)
      if (file.role == role && label_of(file) == label) return &file;
    return nullptr;
  }

  // The same content that stood elsewhere; each file is taken for one move.
  const File* find_moved(const File& locked) {
    for (const File& file : current_.files) {
      if (file.role == locked.role && file.sha256 == locked.sha256 && file.size == locked.size &&
          find(locked_.files, file.role, label_of(file)) == nullptr && moved_.insert(&file).second)
        return &file;
    }
    return nullptr;
  }

  void compare_files() {
    compare_versions();
    for (const File& locked : locked_.files) {
      const File* now = find(current_.files, locked.role, label_of(locked));
      // Another release has other files: its version says it all.
      if (changed_distributions_.contains(locked.name) && locked.origin == "distribution") {
        if (now == nullptr) continue;
      }
      if (now != nullptr) {
        const bool same_release = locked.version == now->version;
        if (same_release && (locked.sha256 != now->sha256 || locked.size != now->size))
          add(rules::kLockBytes, label_of(locked), content_of(locked.size, locked.sha256),
              content_of(now->size, now->sha256));
      } else if (const File* moved = find_moved(locked)) {
        moved_to_[label_of(locked)] = label_of(*moved);
        add(rules::kLockMoved, label_of(locked), label_of(locked), label_of(*moved));
      } else if (!lacks_driver_ || locked.role != "module") {
        add(rules::kLockFileMissing, label_of(locked), content_of(locked.size, locked.sha256),
            "no such " + locked.role);
      }
    }
    for (const File& now : current_.files) {
      if (find(locked_.files, now.role, label_of(now)) != nullptr || moved_.contains(&now))
        continue;
      if (now.origin == "distribution" && changed_distributions_.contains(now.name)) continue;
      add(rules::kLockFileAdded, label_of(now), "no " + now.role + " that is not in the lock",
          content_of(now.size, now.sha256));
    }
  }

  void compare_versions() {
    const auto versions = [](const Lock& lock) {
      std::map<std::string, std::set<std::string>> found;
      for (const File& file : lock.files)
        if (file.origin == "distribution") found[file.name].insert(file.version);
      return found;
    };
    const auto text = [](const std::string& name, const std::set<std::string>& found) {
      std::vector<std::string> parts;
      for (const std::string& version : found)
        parts.push_back(std::string(name).append(" ").append(version));
      return join(parts, ", ");
    };
    const auto now = versions(current_);
    for (const auto& [name, before] : versions(locked_)) {
      const auto found = now.find(name);
      if (found == now.end() || found->second == before) continue;
      changed_distributions_.insert(name);
      add(rules::kLockVersion, "distribution " + name, text(name, before),
          text(name, found->second));
    }
  }

  void compare_driver(Scope scope) {
    const std::string& floor = locked_.driver.floor;
    const std::string& seen = current_.driver.seen;
    const std::string expected = "a driver for CUDA " + floor + " or newer";
    if (lacks_driver_) {
      add(rules::kLockDriver, "the NVIDIA driver", expected, "none");
    } else if (scope == Scope::kAll && !floor.empty() && !current_.driver.stub &&
               version_of(seen) < version_of(floor)) {
      // A stub has no version: a machine without a GPU checks the rest.
      add(rules::kLockDriver, "the NVIDIA driver", expected,
          seen.empty() ? "one that does not tell its version" : "a driver for CUDA " + seen);
    }
  }

  void compare_bindings() {
    std::map<std::string, const Binding*> now;
    for (const Binding& binding : current_.bindings) now[label_of(binding)] = &binding;
    for (const Binding& locked : locked_.bindings) {
      const std::string label = label_of(locked);
      const auto found = now.find(label);
      if (found == now.end()) {
        // The missing driver is told once.
        if (lacks_driver_ && locked.device == "cuda") continue;
        const auto refusal = refusals_.find(label);
        add(rules::kLockBindingMissing, label, "a usable binding, " + text_of(locked.contract),
            refusal == refusals_.end() ? "no such binding" : refusal->second);
        continue;
      }
      compare_binding(locked, *found->second);
      now.erase(found);
    }
    for (const auto& [label, binding] : now)
      add(rules::kLockBindingAdded, label, "no binding that is not in the lock",
          "a usable binding, " + text_of(binding->contract));
  }

  void compare_binding(const Binding& locked, const Binding& now) {
    if (locked.contract != now.contract)
      add(rules::kLockContract, label_of(locked), text_of(locked.contract), text_of(now.contract));
    compare_file_of(locked, "library", locked.library, now.library);
    compare_file_of(locked, "module", locked.module, now.module);
  }

  void compare_file_of(const Binding& binding, const std::string& role, const std::string& before,
                       const std::string& now) {
    if (before == now) return;
    // Where the file went is told of the file.
    if (const auto moved = moved_to_.find(before); moved != moved_to_.end() && moved->second == now)
      return;
    add(rules::kLockFileOfBinding, label_of(binding) + ", " + role, or_nothing(before),
        or_nothing(now));
  }

  // Providers of each operator and device in order, of the bindings that both sides have.
  void compare_order() {
    const auto order = [](const Lock& lock, const Lock& other) {
      std::set<std::string> common;
      for (const Binding& binding : other.bindings) common.insert(label_of(binding));
      std::map<std::string, std::map<std::uint64_t, std::string>> routes;
      for (const Binding& binding : lock.bindings)
        if (common.contains(label_of(binding)))
          routes[route_of(binding)][binding.place] = binding.provider;
      std::map<std::string, std::string> texts;
      for (const auto& [route, providers] : routes) {
        std::vector<std::string> names;
        for (const auto& [place, provider] : providers) names.push_back(provider);
        texts[route] = join(names, ", ");
      }
      return texts;
    };
    const auto before = order(locked_, current_);
    const auto now = order(current_, locked_);
    for (const auto& [route, providers] : before) {
      const auto found = now.find(route);
      if (found != now.end() && found->second != providers)
        add(rules::kLockRoute, "the route of " + route, providers, found->second);
    }
  }

  const Lock& locked_;
  const Lock& current_;
  const std::map<std::string, std::string>& refusals_;
  std::set<std::string> changed_distributions_;
  std::set<const File*> moved_;
  std::map<std::string, std::string> moved_to_;  // old label to new one
  const bool lacks_driver_;
  std::vector<Rejection> drifts_;
};

}  // namespace

std::vector<Rejection> compare(const Lock& locked, const Lock& current, Scope scope,
                               const Circumstances& circumstances) {
  return Comparison(locked, current, circumstances).run(scope);
}

}  // namespace opmux::lock
