// SPDX-License-Identifier: Apache-2.0
//
// What a manifest says, as plain values; docs/manifest.md is the grammar.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/properties.hpp"
#include "core/base/result.hpp"
#include "core/manifest/version.hpp"
#include "core/schema/schema.hpp"
#include "opmux/trust.hpp"

namespace opmux {

// 1-based position of something in a file, for errors.
struct SourceLocation {
  std::filesystem::path file;
  int line = 0;
  int column = 0;
};
std::string to_string(const SourceLocation& location);  // file:line:column

// ---- libraries ----

// One place a library may come from.
struct LibrarySource {
  std::string distribution;  // normalised; empty: `glob` is relative to the manifest's own folder
  std::string glob;
  std::optional<VersionRange>
      version;  // of the distribution, only to exclude releases known to be bad
  std::vector<std::string>
      cpu;  // CPU features as /proc/cpuinfo names them: avx2, avx512f, amx_tile
  bool python_extension = false;
  bool libpython = false;  // uses Python's data too, so that libpython must be mapped before it
  SourceLocation location;
};

struct Library {
  std::string name;
  std::vector<LibrarySource>
      candidates;         // in order; the first that passes every check is the library
  bool optional = false;  // its absence is normal in some releases and not logged as a warning
  SourceLocation location;
};

// ---- contracts ----

struct DirectSymbolContract {
  std::vector<std::string> required_symbols;  // exact demangled names; `call` is for the first
  bool exact = false;                         // the library exports nothing besides
  std::string returns;  // C++ type that the called function returns; empty without `call`
};
struct DispatcherContract {
  schema::Schema schema;
  std::string schema_text;
  std::string dispatch_key;
};
struct ModuleContract {
  std::string operator_name;  // in the module's own table
};
using Contract = std::variant<DirectSymbolContract, DispatcherContract, ModuleContract>;

// "direct_symbol", "dispatcher" or "module"
const char* contract_name(const Contract& contract);

// ---- argument mapping ----

struct NoneLiteral {};
using Literal =
    std::variant<NoneLiteral, bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

// One item of a list argument.
struct ListItem {
  int argument = -1;
  std::int64_t index = 0;  // from 0
};
// A float argument; where it is not given, 1 / sqrt(size of dimension `dim` of `tensor`).
struct InverseSqrtDefault {
  int argument = -1;
  int tensor = -1;
  int dim = 0;  // negative from the end
};

// One value of the provider's call: an argument of the operator by index, a constant, or one
// derived from arguments.
struct CallSource {
  std::variant<int, Literal, ListItem, InverseSqrtDefault> source;

  // The argument of the operator that it passes on, -1 for a constant.
  int argument() const;
};

// What happens to one result of the provider.
struct ResultTarget {
  int argument = -1;               // of the operator, to copy it into; -1: dropped
  bool negative_infinity = false;  // +inf of the provider is -inf of the operator

  bool operator==(const ResultTarget&) const = default;
};

// ---- conditions ----

enum class ConditionKind {
  kTensorEmpty,  // the tensor has no elements
  kTensorNotEmpty,
  kNone,               // the optional argument is not given
  kGiven,              // the optional argument is given
  kDtype,              // dtype is one of `names`
  kSameDtype,          // dtype equals that of argument `other`
  kRank,               // rank is one of `integers`
  kContiguous,         // the whole tensor is C-contiguous
  kLastDimContiguous,  // stride of the last dimension is 1
  kRowAlignment,       // every row of the last dimension begins at a multiple of integers[0] bytes
  kDimMultipleOf,      // shape[dim] % integers[0] == 0; dim may be negative
  kDimRange,           // low <= shape[dim] <= high
  kDimIn,              // shape[dim] is one of `integers`
  kIntIn,              // integer is one of `integers`
  kIntRange,           // low <= integer <= high
  kIntMultipleOf,      // integer % integers[0] == 0
  kFloatIn,            // number is one of `reals`
  kFloatRange,
  kBoolIs,    // boolean is one of `integers`
  kStringIn,  // string is one of `names`
  kListSize,  // length of the list is one of `integers`
  kAnyOf,     // all conditions of one of `branches` hold; `argument` is the first one's
};

// One test of one argument. A condition on an optional argument that is not given holds, unless it
// is kGiven.
struct Condition {
  ConditionKind kind = ConditionKind::kGiven;
  int argument = -1;  // index into the operator's arguments
  int other = -1;
  int dim = 0;
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  double real_low = -std::numeric_limits<double>::infinity();
  double real_high = std::numeric_limits<double>::infinity();
  std::vector<std::vector<Condition>> branches;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string>
      names;         // canonical dtype names for kDtype: float32, float16, bfloat16, int32, …
  std::string text;  // as the manifest says it, e.g. "num_bits: one of 4, 8", for reasons in words
};

// ---- bindings ----

struct Alternative {
  std::vector<std::string>
      libraries;  // the first of these that meets the contract; empty for `module`
  Contract contract;
  std::vector<CallSource> call;  // provider's arguments in its order (dispatcher, direct symbol)
  bool module_maps = false;      // a direct symbol without `call`: the plugin module maps arguments
  std::vector<ResultTarget> results;               // per result of the provider
  std::string device;                              // "cpu" or "cuda"
  std::optional<VersionRange> compute_capability;  // of the CUDA device, e.g. >=8.0
  std::vector<Condition> when;
  // As the alternative, else its provider, declares them; nothing: neither does, so that a module's
  // own table counts.
  std::optional<Properties> properties = std::nullopt;
  SourceLocation location;
};

struct OperatorBinding {
  std::string operator_name;
  std::vector<Alternative> alternatives;
  SourceLocation location;
};

struct Requirements {
  std::optional<VersionRange> torch;
  std::optional<VersionRange> cuda;    // the CUDA that torch was built for
  std::optional<VersionRange> driver;  // CUDA version that the driver supports
};

// ---- operator declarations ----

enum class FillKind {
  kZeros,
  kOnes,
  kNormal,
  kUniform,
  kIntegers,
  kPermutation,
  kRange,
  kConstant,
  kBits
};

struct ExampleTensor {
  std::vector<std::string>
      shape;  // expressions over the example's dims: integers, names, + - * / and parentheses
  std::string dtype;  // canonical name, or "$dtype" for the run's dtype
  FillKind fill = FillKind::kNormal;
  double low = 0.0;   // uniform, integers (inclusive) lower bound; constant's value; normal's mean
  double high = 1.0;  // uniform, integers (inclusive) upper bound; normal's deviation
  std::string high_expression;  // integers: upper bound (exclusive) as an expression over dims,
                                // when not empty
};
// A number that may be an expression over the dims, e.g. size_k: k.
struct ExampleExpression {
  std::string text;
};
using ExampleValue = std::variant<ExampleTensor, ExampleExpression, Literal>;

struct Example {
  std::vector<std::pair<std::string, std::int64_t>> dims;  // name and default, in order
  std::vector<ExampleValue> arguments;                     // parallel to the schema's arguments
};

struct OperatorDeclaration {
  std::string name;  // with `.overload`
  schema::Schema schema;
  std::string schema_text;
  std::string summary;
  std::vector<std::string> dtypes;  // values of $dtype, the first is the default
  double tolerance_ulps = 2.0;      // of the output dtype, between two providers
  double tolerance_absolute = 0.0;  // added, for results near zero by cancellation
  std::optional<Example> example;
  SourceLocation location;
};

struct Manifest {
  std::filesystem::path file;
  // Provider part; `provider` is empty in a manifest that only declares operators.
  std::string provider;
  std::string plugin;
  int priority = 0;
  Requirements requires_;
  std::optional<Properties> properties;  // of alternatives that declare none themselves
  std::vector<Library> libraries;
  std::vector<OperatorBinding> operators;
  std::vector<OperatorDeclaration> declarations;

  const Library* find_library(const std::string& name) const;
};

// All manifests of a run. Argument names of bindings are resolved against the declarations of all
// files.
struct ManifestSet {
  std::vector<OperatorDeclaration> declarations;  // sorted by name
  std::vector<Manifest> providers;  // by priority (highest first), then name; native last
  // Files that were refused, and bindings of undeclared operators, which are left out; everything
  // else still loads.
  std::vector<Rejection> rejections;
  struct File {
    std::filesystem::path path;
    std::filesystem::path folder;
    std::string state;   // "read", "rejected", "masked by PATH", "hidden by PATH", …
    std::string name;    // inside its folder, as masks name it
    std::string sha256;  // of what was read
  };
  std::vector<File> files;  // every file seen, in search order, for the report

  const OperatorDeclaration* find_declaration(const std::string& name) const;
};

// Where manifests come from, highest precedence first. A file masks files of the same relative name
// in later folders; an empty file or a link to /dev/null hides them.
// A folder that does not exist is a rejection: leave out what may be absent.
struct ManifestSources {
  std::vector<std::filesystem::path> folders;  // each holds *.yaml and NAME/*.yaml
  std::vector<std::filesystem::path> files;    // exactly these files, beside the folders
  std::vector<std::filesystem::path> declaration_folders;  // only declarations are taken from these
  Trust trust = Trust::kLax;  // strict: folders and files that others could change are refused
};

// Never fails as a whole: what is wrong is in `rejections`.
ManifestSet read_manifests(const ManifestSources& sources);

// One manifest's text, argument names resolved against `declarations` and its own; several errors
// of one file are all returned. For tests, fuzzing and `opmux validate`.
std::variant<Manifest, std::vector<Rejection>> parse_manifest(
    const std::string& text, const std::filesystem::path& file,
    const std::vector<OperatorDeclaration>& declarations);

// Value of an example expression over `dims`; a rejection (manifest.example) on an unknown name,
// overflow or a division that leaves a remainder.
Result<std::int64_t> evaluate_expression(
    const std::string& expression, const std::vector<std::pair<std::string, std::int64_t>>& dims);

}  // namespace opmux
