// SPDX-License-Identifier: Apache-2.0
//
// True Python extensions, which use Python's data and so need its library.
#include "tests/contract/fixtures.hpp"

namespace opmux {
namespace {

using testing::contract_fixtures;
using testing::ContractTest;
using testing::expect_accepted;
using testing::expect_rejection;
using testing::fake_provider;

using ContractPython = ContractTest;

constexpr const char* k399 = "extension.cpython-399-x86_64-linux-gnu";
constexpr const char* k398 = "extension.cpython-398-x86_64-linux-gnu";

TEST_F(ContractPython, DataCannotWaitUntilSomebodyBringsPython) {
  for (const bool python_extension : {false, true}) {
    source_.python_extension = python_extension;
    const Check result = check("python_data");
    ASSERT_TRUE(result.has_value()) << python_extension;
    EXPECT_EQ(result->rule, rules::kContractUndefinedSymbol.id);
    if (!python_extension) continue;  // a function may be told first
    EXPECT_EQ(result->subject, fake_provider("python_data").string() + ": PyExc_ValueError");
    EXPECT_EQ(result->found, "needs Python's PyExc_ValueError; 1 import is unresolved");
    EXPECT_EQ(result->hint,
              "Set `libpython: true` for this library in the manifest: it uses Python's data.");
  }
}

TEST_F(ContractPython, LibpythonResolvesFunctionsAndData) {
  use_libpython();
  expect_accepted(check("python_data"));
  torch_.python = "3.99";
  expect_accepted(check(k399));
}

TEST_F(ContractPython, LibpythonThatLacksAFunctionIsSaid) {
  use_libpython();
  python_->path = contract_fixtures() / "symbols/nothing.so";
  const Check result = check("python_data");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractUndefinedSymbol.id);
}

TEST_F(ContractPython, ExtensionForAnotherPythonIsRefused) {
  use_libpython();
  expect_rejection(check(k398), rules::kContractPythonMismatch, fake_provider(k398).string(),
                   "Python 3.98, as its name says",
                   "libpython of Python 3.99, " + python_->path.string());
}

TEST_F(ContractPython, TorchForAnotherPythonIsRefusedWhereItsPythonLibraryIsNeeded) {
  use_libpython();
  torch_.python = "3.98";
  expect_rejection(check(k399), rules::kContractPythonMismatch, fake_provider(k399).string(),
                   "a torch for Python 3.99, whose libtorch_python.so it needs",
                   "torch 2.11.0+cu130 for Python 3.98 in " + contract_fixtures().string());
  expect_accepted(check("python_data"));
}

TEST_F(ContractPython, TorchThatTellsNoPythonIsTaken) {
  use_libpython();
  expect_accepted(check(k399));
}

}  // namespace
}  // namespace opmux
