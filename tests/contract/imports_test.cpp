// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include "tests/contract/fixtures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

using testing::ContractTest;
using testing::expect_accepted;
using testing::expect_rejection;
using testing::fake_provider;

using ContractImports = ContractTest;

// Field reports of real installations carry their numbers.
TEST_F(ContractImports, FieldReportA01FunctionWithAnotherIntegerTypeNamesWhatTorchExports) {
  expect_rejection(check("set_device_int"), rules::kContractUndefinedSymbol,
                   fake_provider("set_device_int").string() + ": c10::cuda::SetDevice(int)",
                   "exported by torch 2.11.0+cu130",
                   "built for another torch: needs c10::cuda::SetDevice(int); this torch exports "
                   "c10::cuda::SetDevice(signed char): parameter 1 is `signed char` in place of "
                   "`int`, another integer type; 1 import is unresolved");
}

// A distribution whose wheel was labelled for one torch; its library lies in `package`.
std::filesystem::path labelled(const testing::TemporaryFolder& folder, const std::string& provider,
                               const std::string& release) {
  const std::string metadata = "package-2.8.3+cu13" + release + "cxx11abiTRUE.dist-info/";
  folder.write(metadata + "METADATA",
               "Metadata-Version: 2.1\nName: package\nVersion: 2.8.3+cu13" + release + "\n");
  folder.write(metadata + "WHEEL", "Wheel-Version: 1.0\nTag: cp312-cp312-linux_x86_64\n");
  std::filesystem::create_directories(folder / "package");
  std::filesystem::copy_file(fake_provider(provider), folder / "package/provider.so");
  return folder / "package/provider.so";
}

TEST_F(ContractImports, FieldReportA02TheLabelOfAWheelProvesNothing) {
  const testing::TemporaryFolder folder;
  const auto library = labelled(folder, "check_int", "torch2.11");
  expect_rejection(
      check_path(library), rules::kContractUndefinedSymbol,
      library.string() +
          ": c10::detail::torchCheckFail(char const*, char const*, int, char const*)",
      "exported by torch 2.11.0+cu130",
      "built for another torch: needs c10::detail::torchCheckFail(char const*, char const*, int, "
      "char const*); this torch exports c10::detail::torchCheckFail(char const*, char const*, "
      "unsigned int, char const*): parameter 3 is `unsigned int` in place of `int`, another "
      "integer type; 1 import is unresolved");
}

TEST_F(ContractImports, FieldReportA02TheLabelOfAWheelRefusesNothing) {
  const testing::TemporaryFolder folder;
  expect_accepted(check_path(labelled(folder, "check_unsigned", "torch2.8")));
}

TEST_F(ContractImports, FieldReportA04OldStringAbiIsSaid) {
  expect_rejection(
      check("old_string"), rules::kContractUndefinedSymbol,
      fake_provider("old_string").string() +
          ": torch::jit::parseSchemaOrName(std::string const&, bool)",
      "exported by torch 2.11.0+cu130",
      "built for another torch: needs torch::jit::parseSchemaOrName(std::string const&, bool); "
      "this torch exports torch::jit::parseSchemaOrName(std::__cxx11::basic_string<char, "
      "std::char_traits<char>, std::allocator<char> > const&, bool): parameter 1 is "
      "`std::__cxx11::string const&` in place of `std::string const&`, std::string of the new ABI "
      "against the old one; 1 import is unresolved",
      "The provider was built with the old std::string ABI, torch with the new: use a build with "
      "_GLIBCXX_USE_CXX11_ABI=1.");
}

TEST_F(ContractImports, FieldReportA06MissingOwnSymbolIsNoFaultOfTorch) {
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

TEST_F(ContractImports, ALibraryThatNamesNoTorchIsNotSaidToBeOfAnother) {
  expect_rejection(
      check("not_linked"), rules::kContractUndefinedSymbol,
      fake_provider("not_linked").string() + ": c10::cuda::SetDevice(signed char)",
      "exported by torch 2.11.0+cu130",
      "not linked to torch: needs c10::cuda::SetDevice(signed char), and names none of "
      "torch's libraries among what it needs; 1 import is unresolved",
      "Link the library with libtorch_cpu.so and libc10.so.");
}

}  // namespace
}  // namespace opmux
