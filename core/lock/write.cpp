// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/lock/lock.hpp"

namespace opmux::lock {
namespace {

using Json = nlohmann::ordered_json;

// An absent fact is left out: a line of a difference should mean something.
void add(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

Json to_json(const File& file) {
  Json json{{"role", file.role}, {"origin", file.origin}};
  add(json, "name", file.name);
  add(json, "version", file.version);
  json["path"] = file.path;
  json["size"] = file.size;
  json["sha256"] = file.sha256;
  add(json, "machine", file.machine);
  add(json, "python", file.python);
  add(json, "glibc", file.glibc);
  add(json, "libstdcxx", file.libstdcxx);
  return json;
}

Json to_json(const Contract& contract) {
  Json json{{"kind", contract.kind}};
  add(json, "schema", contract.schema);
  add(json, "dispatch_key", contract.dispatch_key);
  if (!contract.symbols.empty()) json["symbols"] = contract.symbols;
  add(json, "operator", contract.operator_name);
  return json;
}

Json to_json(const Binding& binding) {
  Json json{{"operator", binding.operator_name},
            {"device", binding.device},
            {"place", binding.place},
            {"provider", binding.provider}};
  add(json, "library", binding.library);
  add(json, "module", binding.module);
  json["contract"] = to_json(binding.contract);
  return json;
}

Json to_json(const Torch& torch) {
  Json json{{"version", torch.version}};
  add(json, "cuda", torch.cuda);
  add(json, "python", torch.python);
  json["libtorch_cpu"] = Json{{"size", torch.size}, {"sha256", torch.sha256}};
  return json;
}

Json to_json(const Driver& driver) {
  Json json = Json::object();
  add(json, "floor", driver.floor);
  json["stub"] = driver.stub;
  add(json, "seen", driver.seen);
  return json;
}

Json to_json(const ManifestFile& manifest) {
  return Json{{"path", manifest.path}, {"sha256", manifest.sha256}};
}

Json to_json(const Route& route) {
  return Json{{"pattern", route.pattern}, {"providers", route.providers}};
}

template <class Items>
Json to_list(const Items& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(to_json(item));
  return list;
}

}  // namespace

std::string label_of(const File& file) {
  return file.origin + (file.name.empty() ? "" : " " + file.name) + ": " + file.path;
}

std::string label_of(const Binding& binding) {
  return binding.operator_name + " on " + binding.device + " by " + binding.provider;
}

void sort(Lock& lock) {
  std::sort(lock.manifests.begin(), lock.manifests.end(),
            [](const ManifestFile& left, const ManifestFile& right) {
              return std::tie(left.path, left.sha256) < std::tie(right.path, right.sha256);
            });
  std::sort(lock.files.begin(), lock.files.end(), [](const File& left, const File& right) {
    return std::tie(left.role, left.origin, left.name, left.path) <
           std::tie(right.role, right.origin, right.name, right.path);
  });
  std::sort(lock.bindings.begin(), lock.bindings.end(),
            [](const Binding& left, const Binding& right) {
              return std::tie(left.operator_name, left.device, left.place, left.provider) <
                     std::tie(right.operator_name, right.device, right.place, right.provider);
            });
}

Result<std::string> to_text(const Lock& lock) {
  try {
    Json json{{"lock", 1}, {"opmux", lock.opmux}, {"machine", lock.machine}};
    if (lock.torch) json["torch"] = to_json(*lock.torch);
    json["driver"] = to_json(lock.driver);
    json["routes"] = to_list(lock.routes);
    json["manifests"] = to_list(lock.manifests);
    json["files"] = to_list(lock.files);
    json["bindings"] = to_list(lock.bindings);
    return json.dump(2) + "\n";
  } catch (const Json::exception& problem) {
    return reject(rules::kLockUnwritable, "opmux.lock", "names that are UTF-8",
                  printable(problem.what()));
  }
}

Check write(const Lock& lock, const std::filesystem::path& file) {
  Result<std::string> text = to_text(lock);
  if (!text.ok()) return std::move(text).rejection();
  const std::string problem = write_file_atomically(file, *text);
  if (problem.empty()) return std::nullopt;
  return reject(rules::kLockUnwritable, printable(file.native()), "a file that can be written",
                problem);
}

}  // namespace opmux::lock
