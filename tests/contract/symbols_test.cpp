// SPDX-License-Identifier: Apache-2.0
//
// The direct symbol contract from the bytes of libraries.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/contract/fixtures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

using testing::contract_fixtures;
using ::testing::ElementsAre;
using testing::expect_accepted;
using testing::expect_rejection;

constexpr const char* kRmsNorm = "rms_norm(at::Tensor&, at::Tensor&, at::Tensor&, double)";
constexpr const char* kRmsNormMangled = "_Z8rms_normRN2at6TensorES1_S1_d";
constexpr const char* kMhaFwd =
    "flash::mha_fwd(at::Tensor&, at::Tensor const&, std::optional<at::Tensor>&, int)";

std::filesystem::path library_of(const std::string& name) {
  return contract_fixtures() / "symbols" / (name + ".so");
}

class ContractSymbols : public testing::ContractTest {
 protected:
  Result<std::vector<std::string>> find(const std::string& library,
                                        const std::vector<std::string>& symbols) {
    contract_.required_symbols = symbols;
    return find_symbols(contract_, library_of(library), context());
  }
  void expect_refused(const std::string& library, const std::string& symbol, const Rule& rule,
                      const std::string& expected, const std::string& found) {
    const auto names = find(library, {symbol});
    ASSERT_FALSE(names.ok()) << symbol;
    expect_rejection(names.rejection(), rule, library_of(library).string() + ": " + symbol,
                     expected, found);
  }
  void expect_missing(const std::string& library, const std::string& symbol,
                      const std::string& found) {
    expect_refused(library, symbol, rules::kContractSymbolMissing,
                   "an exported function of exactly this name", found);
  }

  DirectSymbolContract contract_;
};

TEST_F(ContractSymbols, WhatCompilersAndLinkersAddIsNoExportToAnExactContract) {
  contract_.exact = true;
  const auto names = find("versioned_functions", {kRmsNorm});
  EXPECT_TRUE(names.ok()) << to_string(names.rejection());
}

TEST_F(ContractSymbols, WhatNeedsAnObjectIsNoFunctionToCall) {
  const char* const expected = "a function that is called without an object";
  expect_refused("flash", "K::K(at::Tensor&)", rules::kContractSymbolNoFunction, expected,
                 "a constructor");
  expect_refused("flash", "ns::K::~K()", rules::kContractSymbolNoFunction, expected,
                 "a destructor");
  expect_refused("flash", "ns::K::run(int) const", rules::kContractSymbolNoFunction, expected,
                 "a member function");
}

TEST_F(ContractSymbols, NamesThatAreNotDemangledAreSaid) {
  expect_missing("involved", "involved(int)",
                 "not among the 1 functions that the library exports; 1 with this identifier is "
                 "too long or involved to be demangled");
}

TEST_F(ContractSymbols, AreFoundByTheirExactNamesInTheManifestsOrder) {
  const auto names = find("flash", {"flash_version", kMhaFwd, "flash::takes_int(int)"});
  ASSERT_TRUE(names.ok()) << to_string(names.rejection());
  EXPECT_THAT(*names,
              ElementsAre("flash_version", "_ZN5flash7mha_fwdERN2at6TensorERKS1_RSt8optionalIS1_Ei",
                          "_ZN5flash9takes_intEi"));
}

TEST_F(ContractSymbols, AreFoundHoweverTheirSpacesAreWritten) {
  for (const char* spelling :
       {"flash::mha_fwd(at::Tensor&,at::Tensor const&,std::optional<at::Tensor>&,int)",
        "flash::mha_fwd( at::Tensor & , at::Tensor const & , std::optional< at::Tensor > &, int )"})
    EXPECT_TRUE(find("flash", {spelling}).ok()) << spelling;
}

TEST_F(ContractSymbols, MayBeOperatorsAndInstancesOfTemplates) {
  for (const char* name : {"flash::operator<(at::Tensor const&, at::Tensor const&)",
                           "float flash::scaled<float>(float)"}) {
    const auto names = find("flash", {name});
    EXPECT_TRUE(names.ok()) << to_string(names.rejection());
  }
}

TEST_F(ContractSymbols, ALibraryThatCannotBeReadIsItsOwnRejection) {
  const testing::TemporaryFolder folder;
  const auto text = folder.write("text.so", "not a library");
  const auto names = find_symbols(contract_, text, context());
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.rejection().rule, rules::kContractNotElf.id);
}

// ---- exact ----

// Case 37.
TEST_F(ContractSymbols, ExactRefusesFurtherExportsAndCountsThem) {
  EXPECT_TRUE(find("flash", {kMhaFwd}).ok());
  contract_.exact = true;
  const auto names = find("flash", {kMhaFwd, "flash_version"});
  ASSERT_FALSE(names.ok());
  const Rejection& rejection = names.rejection();
  EXPECT_EQ(rejection.rule, rules::kContractSymbolUnexpected.id);
  EXPECT_EQ(rejection.subject, library_of("flash").string());
  EXPECT_EQ(rejection.expected, "exactly 2 exported symbols");
  EXPECT_TRUE(rejection.found.ends_with(" more besides")) << rejection.found;
}

// Case 37.
TEST_F(ContractSymbols, ExactNamesTheExportThatNobodyAskedFor) {
  contract_.exact = true;
  contract_.required_symbols = {kRmsNorm};
  const auto names = find_symbols(contract_, library_of("two_functions"), context());
  ASSERT_FALSE(names.ok());
  expect_rejection(names.rejection(), rules::kContractSymbolUnexpected,
                   library_of("two_functions").string(), "exactly 1 exported symbol",
                   "flash::takes_string(std::string const&) besides");
  contract_.required_symbols.push_back("flash::takes_string(std::string const&)");
  EXPECT_TRUE(find_symbols(contract_, library_of("two_functions"), context()).ok());
}

TEST_F(ContractSymbols, ExactDoesNotCountWhatTheCompilerEmitsEverywhere) {
  contract_.exact = true;
  const auto names = find("rms_norm", {kRmsNorm});
  ASSERT_TRUE(names.ok()) << to_string(names.rejection());
  EXPECT_THAT(*names, ElementsAre(kRmsNormMangled));
}

// ---- missing ----

TEST_F(ContractSymbols, OfALibraryThatExportsNothingAreMissing) {
  const auto names = find("nothing", {kRmsNorm});
  ASSERT_FALSE(names.ok());
  expect_rejection(names.rejection(), rules::kContractSymbolMissing,
                   library_of("nothing").string() + ": " + kRmsNorm,
                   "an exported function of exactly this name", "the library exports no function",
                   "Was it compiled with -fvisibility=hidden? Give its functions "
                   "__attribute__((visibility(\"default\"))).");
}

TEST_F(ContractSymbols, WithoutAnythingAlikeAreMissingWithoutANearest) {
  expect_missing("rms_norm", "flash::something_else(int)",
                 "not among the 2 functions that the library exports");
}

TEST_F(ContractSymbols, TheFirstOfSeveralThatIsMissingIsTold) {
  const auto names = find("rms_norm", {kRmsNorm, "rms_norm(at::Tensor&)", "nothing()"});
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.rejection().subject, library_of("rms_norm").string() + ": rms_norm(at::Tensor&)");
}

struct MissingCase {
  const char* name;
  const char* required;
  const char* nearest;  // with what differs
};
void PrintTo(const MissingCase& missing, std::ostream* out) { *out << missing.name; }

class MissingSymbol : public ContractSymbols, public ::testing::WithParamInterface<MissingCase> {};

TEST_P(MissingSymbol, NamesTheNearestAndWhatDiffers) {
  const auto names = find("flash", {GetParam().required});
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.rejection().rule, rules::kContractSymbolMissing.id);
  EXPECT_EQ(names.rejection().subject, library_of("flash").string() + ": " + GetParam().required);
  const std::string& found = names.rejection().found;
  const std::string told = "; the nearest is ";
  ASSERT_NE(found.find(told), std::string::npos) << found;
  EXPECT_EQ(found.substr(found.find(told) + told.size()), GetParam().nearest);
}

INSTANTIATE_TEST_SUITE_P(
    Table, MissingSymbol,
    ::testing::Values(
        MissingCase{"integer", "flash::takes_int(long)",
                    "flash::takes_int(int): parameter 1 is `int` in place of `long`, another "
                    "integer type"},
        MissingCase{"old_string", "flash::takes_string(std::string const&)",
                    "flash::takes_string(std::__cxx11::basic_string<char, std::char_traits<char>, "
                    "std::allocator<char> > const&): parameter 1 is `std::__cxx11::string const&` "
                    "in place of `std::string const&`, std::string of the new ABI against the old "
                    "one"},
        MissingCase{"const_differs", "flash::takes_reference(at::Tensor const&)",
                    "flash::takes_reference(at::Tensor&): parameter 1 is `at::Tensor&` in place "
                    "of `at::Tensor const&`, const differs"},
        MissingCase{"added", "flash::takes_two(double)",
                    "flash::takes_two(at::Tensor&, double): it has 2 parameters in place of 1; "
                    "parameter 1 `at::Tensor&` is added"},
        MissingCase{"missing", "flash::takes_two(at::Tensor&, double, bool)",
                    "flash::takes_two(at::Tensor&, double): it has 2 parameters in place of 3; "
                    "parameter 3 `bool` is missing"},
        MissingCase{"c10_optional", "flash::takes_optional(std::optional<at::Tensor>&)",
                    "flash::takes_optional(c10::optional<at::Tensor>&): parameter 1 is "
                    "`c10::optional<at::Tensor>&` in place of `std::optional<at::Tensor>&`, "
                    "c10::optional against std::optional"},
        MissingCase{"std_optional", "flash::takes_standard_optional(c10::optional<at::Tensor>)",
                    "flash::takes_standard_optional(std::optional<at::Tensor>): parameter 1 is "
                    "`std::optional<at::Tensor>` in place of `c10::optional<at::Tensor>`, "
                    "std::optional against c10::optional"},
        MissingCase{"by_value", "flash::takes_reference(at::Tensor)",
                    "flash::takes_reference(at::Tensor&): parameter 1 is `at::Tensor&` in place "
                    "of `at::Tensor`, by value against by reference"},
        MissingCase{"name_space", "FLASH::takes_int(int)",
                    "flash::takes_int(int): it is in another namespace, `flash::takes_int`"},
        MissingCase{"misspelt", "flash::take_int(int)",
                    "flash::takes_int(int): its name is `flash::takes_int`"},
        MissingCase{"c_symbol", "flash_version()",
                    "flash_version: it is a C symbol, which tells no parameters"},
        MissingCase{"cpp_function", "takes_int",
                    "flash::takes_int(int): it is in another namespace, `flash::takes_int`; it is "
                    "a C++ function"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ContractSymbols, OfTheOldStringAbiAreToldTheOtherWayRound) {
  expect_missing(
      "old_flash",
      "flash::takes_string(std::__cxx11::basic_string<char, std::char_traits<char>, "
      "std::allocator<char> > const&)",
      "not among the 1 functions that the library exports; the nearest is "
      "flash::takes_string(std::string const&): parameter 1 is `std::string const&` in place of "
      "`std::__cxx11::string const&`, std::string of the old ABI against the new one");
}

TEST_F(ContractSymbols, ThatAreHiddenAreNotTheLibrarys) {
  expect_missing("flash", "flash::hidden(int)",
                 "not among the 11 functions that the library exports");
}

// ---- there, but not as a function of its own ----

TEST_F(ContractSymbols, ThatAreVariablesAreNoFunctions) {
  expect_refused("flash", "flash::count", rules::kContractSymbolNoFunction, "an exported function",
                 "a variable");
  expect_refused("flash", "flash::busy", rules::kContractSymbolNoFunction, "an exported function",
                 "a thread-local variable");
}

TEST_F(ContractSymbols, ThatADependencyDefinesAreElsewhere) {
  expect_refused("imports_rms_norm", kRmsNorm, rules::kContractSymbolElsewhere,
                 "defined in " + library_of("imports_rms_norm").string(),
                 "imported; defined in " + library_of("rms_norm").string());
}

TEST_F(ContractSymbols, ThatNothingDefinesAreElsewhereToo) {
  expect_refused("imports_from_nowhere", kRmsNorm, rules::kContractSymbolElsewhere,
                 "defined in " + library_of("imports_from_nowhere").string(),
                 "imported; no library that it needs defines it");
}

TEST_F(ContractSymbols, ThatADependencyExportsTooAreTwice) {
  expect_refused("rms_norm_twice", kRmsNorm, rules::kContractSymbolTwice,
                 "exported by " + library_of("rms_norm_twice").string() + " alone",
                 "exported by " + library_of("rms_norm").string() + ", which it needs, too");
}

// ---- two libraries of one load set ----

SymbolLibrary entry(const std::filesystem::path& path, const std::string& label,
                    std::vector<std::string> symbols) {
  return {path, label, std::move(symbols)};
}

void expect_twice(const SymbolLibrary& lower, const SymbolLibrary& higher) {
  expect_rejection(check_symbol_conflict(lower, higher), rules::kContractSymbolTwice,
                   lower.path.string() + ": " + kRmsNorm,
                   "exported once, by " + higher.label + " (" + higher.path.string() + ")",
                   "exported by " + lower.label + " (" + lower.path.string() +
                       "), which stands later in the load set, too");
}

TEST(SymbolConflict, OfASymbolThatTwoLibrariesExportIsFoundBothWaysRound) {
  const auto first = library_of("rms_norm");
  const auto second = library_of("rms_norm_twice");
  // Whichever of the two it is needed from.
  expect_twice(entry(second, "b: lib", {kRmsNormMangled}), entry(first, "a: lib", {}));
  expect_twice(entry(second, "b: lib", {}), entry(first, "a: lib", {kRmsNormMangled}));
  expect_twice(entry(first, "a: lib", {kRmsNormMangled}), entry(second, "b: lib", {}));
}

TEST(SymbolConflict, IsNoneWhereNobodyNeedsTheSymbolOrTheOtherLacksIt) {
  const auto first = library_of("rms_norm");
  expect_accepted(check_symbol_conflict(entry(library_of("rms_norm_twice"), "b: lib", {}),
                                        entry(first, "a: lib", {})));
  expect_accepted(check_symbol_conflict(entry(library_of("flash"), "b: lib", {"flash_version"}),
                                        entry(first, "a: lib", {kRmsNormMangled})));
}

TEST(SymbolConflict, OfTwoFilesOfOneNameIsFoundWhereBothAreNeeded) {
  const auto first = library_of("flash");
  const auto second = contract_fixtures() / "same_name/flash.so";
  expect_rejection(check_symbol_conflict(entry(second, "b: lib", {kRmsNormMangled}),
                                         entry(first, "a: lib", {"flash_version"})),
                   rules::kContractSameBaseName, second.string(),
                   "one library called flash.so, a: lib (" + first.string() + ")",
                   "a second one in " + second.parent_path().string());
  expect_accepted(check_symbol_conflict(entry(second, "b: lib", {kRmsNormMangled}),
                                        entry(first, "a: lib", {})));
}

TEST(SymbolConflict, IsNoneForOneFileUnderTwoLabels) {
  const auto file = library_of("rms_norm");
  const testing::TemporaryFolder folder;
  std::filesystem::create_symlink(file, folder / "link.so");
  expect_accepted(check_symbol_conflict(entry(file, "b: lib", {kRmsNormMangled}),
                                        entry(file, "a: lib", {kRmsNormMangled})));
  expect_accepted(check_symbol_conflict(entry(folder / "link.so", "b: lib", {kRmsNormMangled}),
                                        entry(file, "a: lib", {kRmsNormMangled})));
}

}  // namespace
}  // namespace opmux
