// SPDX-License-Identifier: Apache-2.0
//
// The direct symbol contract, decided from the bytes of the library and of what it needs.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"
#include "core/contract/dependencies.hpp"
#include "core/contract/signature.hpp"
#include "core/elf/elf.hpp"
#include "core/elf/exports.hpp"

namespace opmux {
namespace {

using elf::Symbol;
using elf::SymbolKind;

// Names that the linker puts into every library.
constexpr std::string_view kLinkers[] = {"_init", "_fini",  "_edata", "__bss_start",
                                         "_end",  "_etext", "edata",  "end"};

bool is_function(const Symbol& symbol) {
  return symbol.kind == SymbolKind::kFunction || symbol.kind == SymbolKind::kIndirectFunction;
}

const char* kind_text(SymbolKind kind) {
  switch (kind) {
    case SymbolKind::kObject:
      return "a variable";
    case SymbolKind::kThreadLocal:
      return "a thread-local variable";
    case SymbolKind::kFunction:
    case SymbolKind::kIndirectFunction:
      return "a function";
    default:
      return "no function";
  }
}

// A constructor or destructor by its name; of other members a name does not tell.
const char* member_that_needs_an_object(const Signature& signature) {
  const std::string_view last = last_name(signature.name);
  if (last.starts_with('~')) return "a destructor";
  if (!signature.qualifiers.empty()) return "a member function";
  if (last.size() + 2 >= signature.name.size()) return nullptr;
  const std::string_view outer =
      std::string_view(signature.name).substr(0, signature.name.size() - last.size() - 2);
  return last_name(outer) == last ? "a constructor" : nullptr;
}

class SymbolSearch {
 public:
  SymbolSearch(const elf::ElfFile& file, const std::filesystem::path& library,
               const StaticCheckContext& context)
      : file_(file), library_(library), context_(context) {}

  // The mangled name of one required symbol.
  Result<std::string> find(const std::string& required) {
    const Signature wanted = parse_signature(required);
    const std::string subject = library_.string() + ": " + printable(required);
    if (const char* const what = member_that_needs_an_object(wanted)) {
      return reject(rules::kContractSymbolNoFunction, subject,
                    "a function that is called without an object", what);
    }
    const std::string spelling = plain_spelling(required);
    // Demangling every name of a large library takes a second: an identifier stands in the mangled
    // name, too. That of an operator or of a template's instance does not.
    std::string identifier(last_name(wanted.name));
    const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    if (!std::all_of(identifier.begin(), identifier.end(), is_word)) identifier.clear();
    const Symbol* imported = nullptr;
    const Symbol* other_kind = nullptr;
    for (const Symbol& symbol : file_.symbols) {
      if (symbol.name.find(identifier) == std::string_view::npos) continue;
      if (plain_spelling(elf::demangle(symbol.name)) != spelling) continue;
      if (!symbol.defined) {
        imported = &symbol;
      } else if (!is_function(symbol)) {
        other_kind = &symbol;
      } else if (symbol.exported) {
        if (Check twice = check_dependencies(symbol.name, subject)) return *std::move(twice);
        return std::string(symbol.name);
      }
    }
    if (other_kind != nullptr) {
      return reject(rules::kContractSymbolNoFunction, subject, "an exported function",
                    kind_text(other_kind->kind));
    }
    if (imported != nullptr) return imported_only(*imported, subject);
    return missing(wanted, identifier, subject);
  }

  // Exported functions and variables that no one asked for. What the compiler emits wherever it is
  // used (inline functions, templates, type information) is weak and says nothing of the library.
  Check check_exact(const std::vector<std::string>& mangled) const {
    std::vector<std::string> unexpected;
    for (const Symbol& symbol : file_.symbols) {
      if (!symbol.exported || symbol.weak || symbol.unique || symbol.kind == SymbolKind::kNone ||
          symbol.kind == SymbolKind::kOther)
        continue;
      // The linker's own, such as the name of a symbol version.
      if (symbol.kind == SymbolKind::kObject && symbol.size == 0) continue;
      if (std::find(mangled.begin(), mangled.end(), symbol.name) != mangled.end()) continue;
      if (std::find(std::begin(kLinkers), std::end(kLinkers), symbol.name) != std::end(kLinkers))
        continue;
      unexpected.push_back(printable(elf::demangle(symbol.name)));
    }
    if (unexpected.empty()) return std::nullopt;
    const std::size_t count = unexpected.size();
    unexpected.resize(std::min<std::size_t>(count, 3));
    return reject(rules::kContractSymbolUnexpected, library_.string(),
                  "exactly " + std::to_string(mangled.size()) + " exported " +
                      (mangled.size() == 1 ? "symbol" : "symbols"),
                  join(unexpected, ", ") +
                      (count > 3 ? " and " + std::to_string(count - 3) + " more" : std::string()) +
                      " besides");
  }

 private:
  const Dependencies* dependencies() {
    if (!dependencies_) {
      auto found = find_dependencies(file_, context_);
      dependencies_ = found.ok() ? *std::move(found) : Dependencies{};
    }
    return &*dependencies_;
  }

  std::vector<std::string> exporters(std::string_view name) {
    std::vector<std::string> paths;
    for (const Dependency& dependency : dependencies()->libraries) {
      if (dependency.table->contains(name)) paths.push_back(dependency.path.string());
    }
    return paths;
  }

  // A second definition among what the library is loaded with would take the place of the
  // library's own where it calls itself.
  Check check_dependencies(std::string_view name, const std::string& subject) {
    const std::vector<std::string> others = exporters(name);
    if (others.empty()) return std::nullopt;
    return reject(rules::kContractSymbolTwice, subject,
                  "exported by " + library_.string() + " alone",
                  "exported by " + join(others, ", ") + ", which it needs, too");
  }

  Rejection imported_only(const Symbol& symbol, const std::string& subject) {
    const std::vector<std::string> others = exporters(symbol.name);
    return reject(rules::kContractSymbolElsewhere, subject, "defined in " + library_.string(),
                  "imported; " + (others.empty() ? "no library that it needs defines it"
                                                 : "defined in " + join(others, ", ")));
  }

  Rejection missing(const Signature& wanted, const std::string& identifier,
                    const std::string& subject) const {
    std::vector<std::string> exported;
    std::size_t unread = 0;  // names with this identifier that elf::demangle leaves as they are
    for (const Symbol& symbol : file_.symbols) {
      if (!symbol.exported || !is_function(symbol)) continue;
      exported.push_back(elf::demangle(symbol.name));
      if (!identifier.empty() && exported.back().starts_with("_Z") &&
          exported.back().find(identifier) != std::string::npos)
        ++unread;
    }
    std::string found =
        "not among the " + std::to_string(exported.size()) + " functions that the library exports";
    std::string hint;
    if (exported.empty()) {
      found = "the library exports no function";
      hint =
          "Was it compiled with -fvisibility=hidden? Give its functions "
          "__attribute__((visibility(\"default\"))).";
    }
    const std::string near = nearest_signature(wanted, exported);
    if (!near.empty()) {
      const Signature signature = parse_signature(near);
      found += "; the nearest is " + printable(near);
      if (const std::string difference = signature_difference(wanted, signature);
          !difference.empty()) {
        found += ": " + printable(difference);
      }
    }
    if (unread > 0) {
      found += "; " + std::to_string(unread) + " with this identifier " +
               (unread == 1 ? "is" : "are") + " too long or involved to be demangled";
    }
    return reject(rules::kContractSymbolMissing, subject,
                  "an exported function of exactly this name", std::move(found), std::move(hint));
  }

  const elf::ElfFile& file_;
  const std::filesystem::path& library_;
  const StaticCheckContext& context_;
  std::optional<Dependencies> dependencies_;
};

}  // namespace

Result<std::vector<std::string>> find_symbols(const DirectSymbolContract& contract,
                                              const std::filesystem::path& library,
                                              const StaticCheckContext& context) {
  auto file = elf::read(library);
  if (!file.ok()) return std::move(file).rejection();
  SymbolSearch search(*file, library, context);
  std::vector<std::string> mangled;
  for (const std::string& required : contract.required_symbols) {
    Result<std::string> name = search.find(required);
    if (!name.ok()) return std::move(name).rejection();
    mangled.push_back(*std::move(name));
  }
  if (contract.exact) {
    if (Check unexpected = search.check_exact(mangled)) return *std::move(unexpected);
  }
  return mangled;
}

Check check_symbol_conflict(const SymbolLibrary& library, const SymbolLibrary& higher) {
  // One file under two labels is no conflict.
  std::error_code ignored;
  if (std::filesystem::equivalent(library.path, higher.path, ignored)) return std::nullopt;
  const std::string both = printable(higher.label) + " (" + higher.path.string() + ")";
  const auto export_twice = [&](const SymbolLibrary& owner,
                                const SymbolLibrary& other) -> std::optional<std::string> {
    auto table = elf::ExportTable::open(other.path);
    if (!table.ok()) return std::nullopt;  // its own check says so
    for (const std::string& name : owner.symbols) {
      if (table->contains(name)) return name;
    }
    return std::nullopt;
  };
  std::optional<std::string> name = export_twice(library, higher);
  if (!name) name = export_twice(higher, library);
  if (name) {
    return reject(rules::kContractSymbolTwice,
                  library.path.string() + ": " + printable(elf::demangle(*name)),
                  "exported once, by " + both,
                  "exported by " + printable(library.label) + " (" + library.path.string() +
                      "), which stands later in the load set, too");
  }
  if (!library.symbols.empty() && !higher.symbols.empty() &&
      library.path.filename() == higher.path.filename()) {
    return reject(rules::kContractSameBaseName, library.path.string(),
                  "one library called " + printable(library.path.filename().string()) + ", " + both,
                  "a second one in " + library.path.parent_path().string());
  }
  return std::nullopt;
}

}  // namespace opmux
