// SPDX-License-Identifier: Apache-2.0
//
// What the module takes for FlashAttention's functions, and what it refuses.
#include <cxxabi.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>

#include "tests/flash_attn/flash_attn_world.hpp"

namespace opmux::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string demangled_name(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_sname == nullptr) {
    return {};
  }
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, nullptr), std::free);
  return text == nullptr ? std::string() : text.get();
}

std::string refusal(const BindArguments& arguments) {
  OpmuxBound bound{};
  EXPECT_EQ(bind(arguments, bound), OPMUX_INCOMPATIBLE);
  return take_error();
}

TEST(FlashAttnModule, TellsItsNameAndTheTorchThatItWasBuiltAgainst) {
  EXPECT_STREQ(flash_attn_module().name, "flash_attn");
  EXPECT_THAT(flash_attn_module().build_identity, HasSubstr("torch " OPMUX_TORCH_RELEASE));
  EXPECT_EQ(flash_attn_module().start_listening, nullptr);
  EXPECT_EQ(flash_attn_module().operator_count, 0U);
}

TEST(FlashAttnModule, CallsFunctionsOfExactlyTheTypesThatTheirSymbolsTell) {
  // The compiler's own names for functions of the types that the fake and the module are written
  // with.
  EXPECT_EQ(demangled_name(varlen_function()), kVarlenSymbol);
  EXPECT_EQ(demangled_name(kvcache_function()), kKvcacheSymbol);
}

TEST(FlashAttnModule, BindsEveryOperatorAndCountsItsCopy) {
  for (const char* name :
       {"flash_attn_varlen_func", "flash_attn_with_kvcache", "flash_attn_with_kvcache.int"}) {
    const OpmuxBound bound = bound_operator(name);
    EXPECT_NE(bound.call, nullptr) << name;
    EXPECT_EQ(bound.copies, 1U) << name;
  }
}

TEST(FlashAttnModule, FindsItsFunctionAmongOthers) {
  BindArguments arguments = bind_arguments("flash_attn_varlen_func");
  arguments.symbol_names.insert(arguments.symbol_names.begin(), kKvcacheSymbol);
  arguments.symbols.insert(arguments.symbols.begin(), kvcache_function());
  OpmuxBound bound{};
  EXPECT_EQ(bind(arguments, bound), OPMUX_OK) << take_error();
}

TEST(FlashAttnModule, RefusesAnotherSignature) {
  BindArguments arguments = bind_arguments("flash_attn_varlen_func");
  // As vLLM's fork has it: one int more.
  arguments.symbol_names = {
      "flash::mha_varlen_fwd(at::Tensor&, at::Tensor const&, at::Tensor const&, "
      "std::optional<at::Tensor>&, at::Tensor const&, at::Tensor const&, "
      "std::optional<at::Tensor>&, std::optional<at::Tensor const>&, std::optional<at::Tensor>&, "
      "std::optional<at::Tensor>&, int, int, float, float, bool, bool, int, int, float, bool, "
      "int, std::optional<at::Generator>)"};
  EXPECT_EQ(refusal(arguments), "expected the function " + std::string(kVarlenSymbol) + ", found " +
                                    arguments.symbol_names[0]);
}

TEST(FlashAttnModule, RefusesTheOtherOperatorsFunction) {
  BindArguments arguments = bind_arguments("flash_attn_with_kvcache");
  arguments.symbol_names = {kVarlenSymbol};
  EXPECT_THAT(refusal(arguments), AllOf(HasSubstr("expected the function flash::mha_fwd_kvcache("),
                                        HasSubstr("found flash::mha_varlen_fwd(")));
}

TEST(FlashAttnModule, RefusesNoFunction) {
  BindArguments arguments = bind_arguments("flash_attn_with_kvcache");
  arguments.symbol_names.clear();
  arguments.symbols.clear();
  EXPECT_THAT(refusal(arguments), HasSubstr("found none"));
}

TEST(FlashAttnModule, RefusesAnotherOperator) {
  BindArguments arguments = bind_arguments("flash_attn_varlen_func");
  arguments.name = "flash_attn_func";
  EXPECT_EQ(refusal(arguments),
            "expected one of the operators flash_attn_varlen_func, flash_attn_with_kvcache, "
            "flash_attn_with_kvcache.int, found flash_attn_func");
}

TEST(FlashAttnModule, RefusesAnOperatorOfAnotherMeaning) {
  BindArguments arguments = bind_arguments("flash_attn_varlen_func");
  const std::size_t at = arguments.schema.find("int max_seqlen_q");
  arguments.schema.replace(at, 16, "int longest_query");
  EXPECT_THAT(refusal(arguments),
              AllOf(HasSubstr("operator schema: expected flash_attn_varlen_func("),
                    HasSubstr("int max_seqlen_q"), HasSubstr("int longest_query")));
}

TEST(FlashAttnModule, RefusesOtherContractsAndMappings) {
  BindArguments arguments = bind_arguments("flash_attn_varlen_func");
  arguments.contract = OPMUX_CONTRACT_DISPATCHER;
  EXPECT_EQ(refusal(arguments), "the flash_attn module binds the direct symbol contract only");
  arguments = bind_arguments("flash_attn_varlen_func");
  arguments.flags = 0;
  EXPECT_EQ(refusal(arguments),
            "the flash_attn module maps arguments itself: the manifest must give no `call`");
  arguments = bind_arguments("flash_attn_varlen_func");
  arguments.device_type = 7;
  EXPECT_EQ(refusal(arguments), "device type 7 is neither cpu nor cuda");
}

TEST(FlashAttnModule, RefusesACallOfAnotherForm) {
  const OpmuxBound bound = bound_operator("flash_attn_varlen_func");
  EXPECT_EQ(call_bound(bound, {none()}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "flash::mha_varlen_fwd: expected 19 values on cpu, found 1 on cpu");
}

}  // namespace
}  // namespace opmux::testing
