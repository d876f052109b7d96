// SPDX-License-Identifier: Apache-2.0
#include "core/contract/imports.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/contract/signature.hpp"

namespace opmux {
namespace {

bool is_pythons(std::string_view name) { return name.starts_with("Py") || name.starts_with("_Py"); }

// Variables of Python's, which cannot wait until somebody brings Python: PyExc_ValueError,
// PyFloat_Type, _Py_NoneStruct.
bool is_pythons_data(std::string_view name) {
  return is_pythons(name) &&
         (name.starts_with("PyExc_") || name.ends_with("_Type") || name.ends_with("Struct"));
}

// A sanitizer's runtime may be linked into the host alone.
bool is_sanitizers(std::string_view name) {
  return name.starts_with("__asan_") || name.starts_with("__ubsan_") ||
         name.starts_with("__tsan_") || name.starts_with("__lsan_") ||
         name.starts_with("__sanitizer_") || name.starts_with("__sancov_");
}

// cuMemAlloc_v2, but neither cudaMalloc nor cublasCreate_v2.
bool is_drivers(std::string_view name) {
  return name.size() > 2 && name.starts_with("cu") &&
         std::isupper(static_cast<unsigned char>(name[2])) != 0;
}

// Whether a mangled name lives in one of torch's namespaces. Its parameters do not count: a
// provider's own function takes torch's types.
bool is_torchs(std::string_view name) {
  if (name.starts_with("aoti_torch_") || name.starts_with("torch_")) return true;  // the C shim
  if (!name.starts_with("_Z")) return false;
  name.remove_prefix(2);
  for (const std::string_view special : {"TV", "TI", "TS", "TT", "GV"}) {
    if (name.starts_with(special)) {
      name.remove_prefix(special.size());
      break;
    }
  }
  if (!name.starts_with('N')) return false;
  name.remove_prefix(1);
  name.remove_prefix(std::min(name.find_first_not_of("rVKRO"), name.size()));
  for (const std::string_view scope : {"3c10", "2at", "5torch", "6caffe2"}) {
    if (name.starts_with(scope)) return true;
  }
  return false;
}

bool is_standard_cpps(std::string_view name) {
  return name.starts_with("_ZSt") || name.starts_with("_ZNSt") || name.starts_with("_ZNKSt") ||
         name.starts_with("__cxa_") || name.starts_with("__gxx_");
}

// A demangled function without its parameters: "c10::cuda::SetDevice".
std::string without_parameters(std::string text) {
  for (auto at = text.find("[abi:cxx11]"); at != std::string::npos; at = text.find("[abi:cxx11]")) {
    text.erase(at, 11);
  }
  const auto close = text.rfind(')');
  if (close == std::string::npos) return text;
  int depth = 0;
  for (std::size_t i = close + 1; i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return text.substr(0, i);
  }
  return text;
}

// What torch exports under the same name with other parameters, demangled; at most two.
std::vector<std::string> near_exports(const std::string& missing, const Dependencies& dependencies,
                                      const TorchInstallation& torch) {
  const std::string base = without_parameters(missing);
  const std::string last = base.substr(base.rfind(':') + 1);
  const bool plain = !last.empty() && std::all_of(last.begin(), last.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
  std::vector<std::string> found;
  if (!plain) return found;
  // Demangling 80,000 names takes a tenth of a second; the identifier stands in the mangled name.
  const std::string token = std::to_string(last.size()) + last;
  for (const Dependency& library : dependencies.libraries) {
    if (library.path.parent_path() != torch.library_folder) continue;
    auto file = elf::read(library.path);
    if (!file) continue;
    for (const elf::Symbol& symbol : file->symbols) {
      if (!symbol.exported || symbol.name.find(token) == std::string_view::npos) continue;
      std::string text = elf::demangle(symbol.name);
      if (without_parameters(text) != base) continue;
      if (std::find(found.begin(), found.end(), text) != found.end()) continue;
      found.push_back(std::move(text));
      if (found.size() == 2) return found;
    }
  }
  return found;
}

bool has_new_string(std::string_view text) {
  return text.find("std::__cxx11::basic_string") != std::string_view::npos;
}
bool has_old_string(std::string_view text) {
  return text.find("std::string") != std::string_view::npos ||
         text.find("std::basic_string") != std::string_view::npos;
}

struct Reason {
  std::string expected;
  std::string found;
  std::string hint;  // empty: the rule's remedy
};

Reason explain_torchs(const std::string& name, const Dependencies& dependencies,
                      const TorchInstallation* torch) {
  Reason reason;
  if (torch == nullptr) {
    reason.expected = "exported by torch";
    reason.found = "built for torch, but no torch is chosen: needs " + name;
    reason.hint = "Add `requires: {torch: ...}` to the manifest.";
    return reason;
  }
  reason.expected = "exported by torch " + torch->version;
  const bool names_torch = std::any_of(dependencies.libraries.begin(), dependencies.libraries.end(),
                                       [&](const Dependency& library) {
                                         return library.path.parent_path() == torch->library_folder;
                                       });
  if (!names_torch) {
    reason.found = "not linked to torch: needs " + name +
                   ", and names none of torch's libraries among what it needs";
    reason.hint = "Link the library with libtorch_cpu.so and libc10.so.";
    return reason;
  }
  reason.found = "built for another torch: needs " + name;
  const auto near = near_exports(name, dependencies, *torch);
  if (near.empty()) return reason;
  std::vector<std::string> shown;
  for (const std::string& text : near) shown.push_back(printable(text));
  reason.found += "; this torch exports " + join(shown, " and ");
  const Signature needed = parse_signature(name);
  if (const std::string difference =
          signature_difference(needed, parse_signature(nearest_signature(needed, near)));
      !difference.empty()) {
    reason.found += ": " + printable(difference);
  }
  const bool exports_new = has_new_string(near.front());
  if (exports_new && has_old_string(name) && !has_new_string(name)) {
    reason.hint =
        "The provider was built with the old std::string ABI, torch with the new: use a build with "
        "_GLIBCXX_USE_CXX11_ABI=1.";
  } else if (!exports_new && has_new_string(name) && has_old_string(near.front())) {
    reason.hint =
        "The provider was built with the new std::string ABI, torch with the old: use a build with "
        "_GLIBCXX_USE_CXX11_ABI=0.";
  }
  return reason;
}

Reason explain(std::string_view symbol, const std::string& name, const Dependencies& dependencies,
               const TorchInstallation* torch) {
  if (is_torchs(symbol)) return explain_torchs(name, dependencies, torch);
  if (is_pythons(symbol)) {
    return {"exported by a library that it needs", "needs Python's " + name,
            is_pythons_data(symbol)
                ? "Set `libpython: true` for this library in the manifest: it uses Python's data."
                : "Set `python_extension: true` for this library in the manifest."};
  }
  if (is_standard_cpps(symbol)) {
    return {"exported by the C++ library that it is loaded with",
            "built for another C++ library: needs " + name,
            "Use a build of the provider for this system."};
  }
  if (symbol.starts_with("_Z")) {
    return {"defined in the library itself", "incomplete: lacks its own symbol " + name,
            "A part was left out when the provider was built: install another build of it; another "
            "torch does not help."};
  }
  return {"exported by a library that it needs", "needs " + name + ", which none of them exports",
          "Use a build of the provider that fits the libraries here."};
}

}  // namespace

Check check_imports(const elf::ElfFile& file, const Dependencies& dependencies,
                    bool python_extension, const TorchInstallation* torch) {
  std::string_view first;
  std::size_t count = 0;
  for (const elf::Symbol& symbol : file.symbols) {
    if (symbol.defined || symbol.weak || symbol.name.empty()) continue;
    if (is_sanitizers(symbol.name)) continue;
    if (python_extension && is_pythons(symbol.name) && !is_pythons_data(symbol.name)) continue;
    // A stub stands in for the whole driver, however little it exports.
    if (dependencies.stub_driver && is_drivers(symbol.name)) continue;
    if (dependencies.export_symbol(symbol.name)) continue;
    // A symbol of torch says most: the others often follow from the same mismatch.
    if (count++ == 0 || (is_torchs(symbol.name) && !is_torchs(first))) first = symbol.name;
  }
  if (count == 0) return std::nullopt;
  const std::string name = printable(elf::demangle(first));
  Reason reason = explain(first, name, dependencies, torch);
  reason.found += "; " + std::to_string(count) +
                  (count == 1 ? " import is unresolved" : " imports are unresolved");
  return reject(rules::kContractUndefinedSymbol, file.path + ": " + name,
                std::move(reason.expected), std::move(reason.found), std::move(reason.hint));
}

}  // namespace opmux
