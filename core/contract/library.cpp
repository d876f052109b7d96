// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"
#include "core/contract/dependencies.hpp"
#include "core/contract/imports.hpp"
#include "core/contract/versions.hpp"

namespace opmux {
namespace {

Check check_cpu(const std::filesystem::path& path, const LibrarySource& source,
                const HostFacts* host) {
  std::vector<std::string> missing;
  for (const std::string& feature : source.cpu) {
    if (host == nullptr || !host->cpu_features.contains(feature)) missing.push_back(feature);
  }
  if (missing.empty()) return std::nullopt;
  return reject(rules::kContractCpuFeature, path.string(),
                "a CPU with " + printable(join(source.cpu, ", ")),
                "a CPU without " + printable(join(missing, ", ")));
}

}  // namespace

Check check_torch_python(const std::filesystem::path& path, const std::string& version,
                         const TorchInstallation& torch) {
  if (torch.python.empty() || torch.python == version) return std::nullopt;
  auto file = elf::read(path, elf::Detail::kDependencies);
  if (!file) return std::nullopt;  // its own check says so
  const std::vector<std::string>& needed = file->needed;
  if (std::find(needed.begin(), needed.end(), "libtorch_python.so") == needed.end())
    return std::nullopt;
  return reject(rules::kContractPythonMismatch, path.string(),
                "a torch for Python " + version + ", whose libtorch_python.so it needs",
                "torch " + printable(torch.version) + " for Python " + torch.python + " in " +
                    torch.root.parent_path().string());
}

Check check_library(const std::filesystem::path& path, const LibrarySource& source,
                    const StaticCheckContext& context) {
  auto file = elf::read(path);
  if (!file) return std::move(file).rejection();
  if (Check failed = check_cpu(path, source, context.host)) return failed;
  auto dependencies = find_dependencies(*file, context);
  if (!dependencies) return std::move(dependencies).rejection();
  if (Check failed = check_versions(*file, *dependencies)) return failed;
  for (const Dependency& library : dependencies->libraries) {
    if (Check failed = check_versions(library.table->file(), *dependencies)) return failed;
  }
  if (context.python != nullptr) {
    const std::string own = extension_python_version(path);
    if (!own.empty() && own != context.python->version) {
      return reject(
          rules::kContractPythonMismatch, path.string(), "Python " + own + ", as its name says",
          "libpython of Python " + context.python->version + ", " + context.python->path.string());
    }
    if (context.torch != nullptr) {
      if (Check other = check_torch_python(path, context.python->version, *context.torch))
        return other;
    }
  }
  return check_imports(*file, *dependencies, source.python_extension, context.torch);
}

}  // namespace opmux
