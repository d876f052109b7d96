// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/fixtures.hpp"

namespace opmux {
namespace {

using testing::ContractTest;
using testing::expect_accepted;
using testing::expect_rejection;
using testing::fake_provider;

using ContractImports = ContractTest;

TEST_F(ContractImports, FunctionWithAnotherParameterTypeNamesWhatTorchExports) {
  expect_rejection(check("set_device_int"), rules::kContractUndefinedSymbol,
                   fake_provider("set_device_int").string() + ": c10::cuda::SetDevice(int)",
                   "exported by torch 2.11.0+cu130",
                   "built for another torch: needs c10::cuda::SetDevice(int); this torch exports "
                   "c10::cuda::SetDevice(signed char); 1 import is unresolved");
}

TEST_F(ContractImports, OldStringAbiIsSaid) {
  const Check result = check("old_string");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractUndefinedSymbol.id);
  EXPECT_EQ(result->subject, fake_provider("old_string").string() +
                                 ": torch::jit::parseSchemaOrName(std::string const&, bool)");
  EXPECT_EQ(result->found,
            "built for another torch: needs torch::jit::parseSchemaOrName(std::string const&, "
            "bool); this torch exports "
            "torch::jit::parseSchemaOrName(std::__cxx11::basic_string<char, "
            "std::char_traits<char>, std::allocator<char> > const&, bool); 1 import is unresolved");
  EXPECT_EQ(result->hint,
            "The provider was built with the old std::string ABI, torch with the new: use a build "
            "with _GLIBCXX_USE_CXX11_ABI=1.");
}

TEST_F(ContractImports, MissingOwnSymbolIsNoFaultOfTorch) {
  expect_rejection(
      check("incomplete"), rules::kContractUndefinedSymbol,
      fake_provider("incomplete").string() + ": silu_and_mul_nvfp4_quant(at::Tensor&)",
      "defined in the library itself",
      "incomplete: lacks its own symbol silu_and_mul_nvfp4_quant(at::Tensor&); 1 import is "
      "unresolved",
      "A part was left out when the provider was built: install another build of it; another torch "
      "does not help.");
}

TEST_F(ContractImports, TorchsSymbolIsNamedBeforeOthersAndAllAreCounted) {
  const Check result = check("two_faults");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->subject, fake_provider("two_faults").string() + ": c10::cuda::SetDevice(int)");
  EXPECT_TRUE(result->found.ends_with("; 2 imports are unresolved")) << result->found;
}

TEST_F(ContractImports, PythonsNamesAreExemptInAPythonExtensionOnly) {
  expect_rejection(check("python"), rules::kContractUndefinedSymbol,
                   fake_provider("python").string() + ": PyModule_Create2",
                   "exported by a library that it needs",
                   "needs Python's PyModule_Create2; 1 import is unresolved",
                   "Set `python_extension: true` for this library in the manifest.");
  source_.python_extension = true;
  expect_accepted(check("python"));
}

TEST_F(ContractImports, PythonExtensionMustResolveEverythingElse) {
  source_.python_extension = true;
  expect_rejection(check("other_function"), rules::kContractUndefinedSymbol,
                   fake_provider("other_function").string() + ": some_other_function",
                   "exported by a library that it needs",
                   "needs some_other_function, which none of them exports; 1 import is unresolved",
                   "Use a build of the provider that fits the libraries here.");
}

}  // namespace
}  // namespace opmux
