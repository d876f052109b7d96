// SPDX-License-Identifier: Apache-2.0
#include "core/loader/binding.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fakes/fakes.hpp"

namespace opmux {
namespace {

void* mapped(const std::string& fake) {
  const Result<void*> library = map_library(fakes::path(fake), BindingMode::kNow);
  EXPECT_TRUE(library.ok()) << to_string(library.rejection());
  return library.ok() ? *library : nullptr;
}

ForeignBinding answer(const std::string& operator_name = "answer") {
  ForeignBinding binding;
  binding.operator_name = operator_name;
  binding.operator_schema = operator_name + "(Tensor(a!) out) -> ()";
  binding.device = "cpu";
  binding.symbols = {"fake_answer"};
  binding.mangled = {"fake_answer"};
  binding.returns = "int";
  return binding;
}

// ---- resolve_symbols ----

TEST(ResolveSymbols, GivesTheAddressesOfTheLibrarysOwnFunctions) {
  void* const library = mapped("none");
  const auto found = resolve_symbols(library, fakes::path("none"), answer());
  ASSERT_TRUE(found.ok()) << to_string(found.rejection());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0], dlsym(library, "fake_answer"));
  EXPECT_EQ(reinterpret_cast<int (*)()>((*found)[0])(), 42);
}

TEST(ResolveSymbols, RefusesAFunctionThatOnlyADependencyHas) {
  void* const library = mapped("depends");
  ASSERT_NE(dlsym(library, "fake_answer"), nullptr) << "the linker itself finds it";
  const auto found = resolve_symbols(library, fakes::path("depends"), answer());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.rejection().rule, "contract.symbol_elsewhere");
  EXPECT_EQ(found.rejection().subject, fakes::path("depends").native() + ": fake_answer");
  EXPECT_EQ(found.rejection().expected, "defined in " + fakes::path("depends").native());
  EXPECT_EQ(found.rejection().found,
            "defined in " + fakes::path("libfake_answer_dependency").native());
}

TEST(ResolveSymbols, RefusesAFunctionThatIsNotThereAnyMore) {
  ForeignBinding binding = answer();
  binding.symbols.push_back("fake::gone(int)");
  binding.mangled.push_back("_ZN4fake4goneEi");
  const auto found = resolve_symbols(mapped("none"), fakes::path("none"), binding);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.rejection().rule, "contract.symbol_elsewhere");
  EXPECT_EQ(found.rejection().subject, fakes::path("none").native() + ": fake::gone(int)");
  EXPECT_EQ(found.rejection().found, "not found after loading");
}

// ---- foreign_binding ----

OperatorDeclaration declaration(const std::string& name) {
  OperatorDeclaration made;
  made.name = name;
  made.schema_text = name + "(Tensor q, float? scale, int[] window, Tensor(a!) out) -> ()";
  return made;
}

TEST(MakeForeignBinding, OfADirectSymbolHasBothNamesOfItsFunctions) {
  Alternative alternative;
  alternative.contract = DirectSymbolContract{{"f(int)", "g()"}, false, "at::Tensor"};
  alternative.device = "cuda";
  alternative.results = {{3, true}, {}};
  alternative.call.emplace_back().source.emplace<int>(2);
  const ForeignBinding binding =
      foreign_binding(alternative, declaration("attend"), {"_Z1fi", "_Z1gv"});
  EXPECT_EQ(binding.operator_name, "attend");
  EXPECT_EQ(binding.operator_schema, declaration("attend").schema_text);
  EXPECT_EQ(binding.device, "cuda");
  EXPECT_EQ(binding.symbols, (std::vector<std::string>{"f(int)", "g()"}));
  EXPECT_EQ(binding.mangled, (std::vector<std::string>{"_Z1fi", "_Z1gv"}));
  EXPECT_EQ(binding.returns, "at::Tensor");
  EXPECT_EQ(binding.results, (std::vector<ResultTarget>{{3, true}, {}}));
  ASSERT_EQ(binding.call.size(), 1u);
  EXPECT_FALSE(binding.module_maps);
  EXPECT_EQ(binding.provider_schema, "");
  EXPECT_EQ(binding.dispatch_key, "");
}

TEST(MakeForeignBinding, OfADispatcherOperatorHasItsSchema) {
  Alternative alternative;
  DispatcherContract contract;
  contract.schema_text = "_C::f(Tensor q) -> ()";
  contract.dispatch_key = "CPU";
  alternative.contract = contract;
  alternative.device = "cpu";
  const ForeignBinding binding = foreign_binding(alternative, declaration("attend"), {});
  EXPECT_EQ(binding.provider_schema, "_C::f(Tensor q) -> ()");
  EXPECT_EQ(binding.dispatch_key, "CPU");
  EXPECT_TRUE(binding.symbols.empty());
}

// ---- bind_foreign ----

class BindForeign : public testing::Test {
 protected:
  void SetUp() override {
    Result<PluginModule> opened = open_module(fakes::path("module_binds"));
    ASSERT_TRUE(opened.ok()) << to_string(opened.rejection());
    module_ = *opened;
    const auto symbols = resolve_symbols(mapped("none"), fakes::path("none"), answer());
    ASSERT_TRUE(symbols.ok());
    symbols_ = *symbols;
  }

  // What the module was asked, in the fake's words.
  static std::string asked() {
    void* const library = dlopen(fakes::path("module_binds").c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto last = reinterpret_cast<const char* (*)()>(dlsym(library, "fake_last_request"));
    return last();
  }

  PluginModule module_;
  std::vector<void*> symbols_;
};

TEST_F(BindForeign, PassesEveryFieldOfADirectSymbol) {
  ForeignBinding binding = answer("attend");
  binding.device = "cuda";
  const auto add = [&binding]() -> decltype(CallSource::source)& {
    return binding.call.emplace_back().source;
  };
  add().emplace<int>(3);
  for (const Literal& literal :
       {Literal{NoneLiteral{}}, Literal{true}, Literal{std::int64_t{-7}}, Literal{0.5},
        Literal{std::string("auto")}, Literal{std::vector<std::int64_t>{1, 2}},
        Literal{std::vector<std::int64_t>{}}})
    add().emplace<Literal>(literal);
  add().emplace<ListItem>(ListItem{2, 1});
  add().emplace<InverseSqrtDefault>(InverseSqrtDefault{1, 0, -1});
  binding.results = {{4, true}, {}};
  const Result<OpmuxBound> bound = bind_foreign(module_, binding, symbols_);
  ASSERT_TRUE(bound.ok()) << to_string(bound.rejection());
  EXPECT_EQ(asked(),
            "size 1; contract 2; device 2; operator attend; schema attend(Tensor(a!) out) -> (); "
            "provider ; key ; returns int; flags 0; argument 3; constant none of -1; constant true "
            "of -1; constant -7 of -1; constant 0.500000 of -1; constant 'auto' of -1; constant [1 "
            "2] of -1; constant [] of -1; item 1 of 2; inverse_sqrt of dimension -1 of 0 for 1; "
            "result to 4 -inf; result to -1; symbol fake_answer");
}

TEST_F(BindForeign, SaysWhenTheModuleMapsTheArguments) {
  ForeignBinding binding = answer();
  binding.module_maps = true;
  binding.returns.clear();
  ASSERT_TRUE(bind_foreign(module_, binding, symbols_).ok());
  EXPECT_EQ(asked(),
            "size 1; contract 2; device 1; operator answer; schema answer(Tensor(a!) out) -> (); "
            "provider ; key ; returns ; flags 1; symbol fake_answer");
}

TEST_F(BindForeign, PassesEveryFieldOfADispatcherOperator) {
  ForeignBinding binding = answer();
  binding.symbols.clear();
  binding.mangled.clear();
  binding.returns.clear();
  binding.provider_schema = "_C::answer(Tensor! out) -> ()";
  binding.dispatch_key = "CPU";
  binding.call.emplace_back().source.emplace<int>(0);
  ASSERT_TRUE(bind_foreign(module_, binding, {}).ok());
  EXPECT_EQ(asked(),
            "size 1; contract 1; device 1; operator answer; schema answer(Tensor(a!) out) -> (); "
            "provider _C::answer(Tensor! out) -> (); key CPU; returns ; flags 0; argument 0");
}

TEST_F(BindForeign, GivesWhatTheModuleBound) {
  const Result<OpmuxBound> bound = bind_foreign(module_, answer(), symbols_);
  ASSERT_TRUE(bound.ok()) << to_string(bound.rejection());
  EXPECT_EQ(bound->binding, symbols_[0]);
}

TEST_F(BindForeign, TurnsEveryRefusalIntoARejectionWithTheModulesWords) {
  for (const auto& [operator_name, said] : std::vector<std::pair<std::string, std::string>>{
           {"refused", "fake: no such function is known"},
           {"refused_silently", "status " + std::to_string(OPMUX_UNSUPPORTED)},
           {"unbound", "status 0"},
           {"thrown", "it threw: fake: thrown by bind"},
           {"thrown_number", "it threw something that is no std::exception"}}) {
    const Result<OpmuxBound> bound = bind_foreign(module_, answer(operator_name), symbols_);
    ASSERT_FALSE(bound.ok()) << operator_name;
    EXPECT_EQ(bound.rejection().stage, "loader");
    EXPECT_EQ(bound.rejection().rule, "loader.bind_refused");
    EXPECT_EQ(bound.rejection().subject,
              fakes::path("module_binds").native() + ": " + operator_name);
    EXPECT_EQ(bound.rejection().expected, "the module to bind fake_answer");
    EXPECT_EQ(bound.rejection().found, said);
  }
}

TEST_F(BindForeign, DoesNotRepeatTheWordsOfAnEarlierRefusal) {
  ASSERT_FALSE(bind_foreign(module_, answer("refused"), symbols_).ok());
  EXPECT_EQ(bind_foreign(module_, answer("refused_silently"), symbols_).rejection().found,
            "status " + std::to_string(OPMUX_UNSUPPORTED));
}

TEST_F(BindForeign, RefusesAModuleThatBindsNothing) {
  const Result<PluginModule> opened = open_module(fakes::path("module_none"));
  ASSERT_TRUE(opened.ok());
  const Result<OpmuxBound> bound = bind_foreign(*opened, answer(), symbols_);
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.rejection().rule, "loader.bind_refused");
  EXPECT_EQ(bound.rejection().expected, "a module that binds foreign libraries");
  EXPECT_EQ(bound.rejection().found, "module `fake` has its own table only");
}

}  // namespace
}  // namespace opmux
