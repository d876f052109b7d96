// SPDX-License-Identifier: Apache-2.0
//
// Every way in which a machine can differ from a lock has a name of its own.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/lock/locks.hpp"

namespace opmux {
namespace {

using lock::Lock;
using lock::Scope;
using testing::digest;
using testing::example_lock;

std::vector<Rejection> drifts_after(const std::function<void(Lock&)>& change,
                                    const lock::Circumstances& circumstances = {},
                                    Scope scope = Scope::kAll) {
  Lock current = example_lock();
  change(current);
  return lock::compare(example_lock(), current, scope, circumstances);
}

void expect_only(const std::vector<Rejection>& drifts, const std::string& rule,
                 const std::string& subject, const std::string& expected,
                 const std::string& found) {
  ASSERT_EQ(drifts.size(), 1u) << (drifts.empty() ? "" : to_string(drifts.back()));
  EXPECT_EQ(drifts[0].stage, "lock");
  EXPECT_EQ(drifts[0].rule, rule);
  EXPECT_EQ(drifts[0].subject, subject);
  EXPECT_EQ(drifts[0].expected, expected);
  EXPECT_EQ(drifts[0].found, found);
  EXPECT_FALSE(drifts[0].hint.empty());
}

TEST(LockComparison, TheSameIsNoDrift) {
  EXPECT_TRUE(drifts_after([](Lock&) {}).empty());
}

TEST(LockComparison, OtherOpmux) {
  expect_only(drifts_after([](Lock& now) { now.opmux = "0.2.0"; }), "lock.opmux", "opmux", "0.1.0",
              "0.2.0");
}

TEST(LockComparison, OtherMachine) {
  expect_only(drifts_after([](Lock& now) { now.machine = "aarch64"; }), "lock.machine",
              "this machine", "x86_64", "aarch64");
}

TEST(LockComparison, OtherTorch) {
  expect_only(drifts_after([](Lock& now) { now.torch->version = "2.11.0+cpu"; }), "lock.torch",
              "torch", "torch 2.11.0+cu130 (CUDA 13.0, Python 3.12)",
              "torch 2.11.0+cpu (CUDA 13.0, Python 3.12)");
  expect_only(drifts_after([](Lock& now) { now.torch.reset(); }), "lock.torch", "torch",
              "torch 2.11.0+cu130 (CUDA 13.0, Python 3.12)", "no torch");
}

TEST(LockComparison, AChangedByteOfTorch) {
  expect_only(drifts_after([](Lock& now) { now.torch->sha256 = digest('0'); }), "lock.torch",
              "distribution torch: torch/lib/libtorch_cpu.so", "5000 bytes, SHA-256 " + digest('f'),
              "5000 bytes, SHA-256 " + digest('0'));
}

TEST(LockComparison, AVersionBumpIsToldOnceAndNotAsChangedBytes) {
  expect_only(drifts_after([](Lock& now) {
                for (lock::File& file : now.files) {
                  if (file.role == "module") continue;
                  file.version = "0.26.0";
                  file.sha256 = digest('9');
                }
              }),
              "lock.version", "distribution vllm", "vllm 0.20.2", "vllm 0.26.0");
}

TEST(LockComparison, AChangedByteOfALibraryAndOfAModule) {
  expect_only(drifts_after([](Lock& now) { now.files[0].sha256 = digest('0'); }), "lock.bytes",
              "distribution vllm: vllm/_C.abi3.so", "1000 bytes, SHA-256 " + digest('a'),
              "1000 bytes, SHA-256 " + digest('0'));
  expect_only(drifts_after([](Lock& now) { now.files[2].sha256 = digest('0'); }), "lock.bytes",
              "installation: opmux_vllm.torch-2.11.0.so", "2000 bytes, SHA-256 " + digest('e'),
              "2000 bytes, SHA-256 " + digest('0'));
}

// Case 38: the right hash of another size is a forged lock or file; both are compared.
TEST(LockComparison, Case38TheRightHashWithAnotherSizeIsRefused) {
  expect_only(drifts_after([](Lock& now) { now.files[0].size = 1001; }), "lock.bytes",
              "distribution vllm: vllm/_C.abi3.so", "1000 bytes, SHA-256 " + digest('a'),
              "1001 bytes, SHA-256 " + digest('a'));
}

TEST(LockComparison, AMovedFileIsToldOnceAndNotOfItsBindings) {
  expect_only(drifts_after([](Lock& now) {
                now.files[0].path = "vllm/lib/_C.abi3.so";
                now.bindings[0].library = label_of(now.files[0]);
              }),
              "lock.moved", "distribution vllm: vllm/_C.abi3.so",
              "distribution vllm: vllm/_C.abi3.so", "distribution vllm: vllm/lib/_C.abi3.so");
}

TEST(LockComparison, AMissingAndAnAddedFile) {
  expect_only(drifts_after([](Lock& now) { now.files.erase(now.files.begin() + 1); }),
              "lock.file_missing", "distribution vllm: vllm/_moe_C.abi3.so",
              "1000 bytes, SHA-256 " + digest('b'), "no such library");
  expect_only(
      drifts_after([](Lock& now) { now.files.push_back(testing::library("vllm/_new.so", 'd')); }),
      "lock.file_added", "distribution vllm: vllm/_new.so", "no library that is not in the lock",
      "1000 bytes, SHA-256 " + digest('d'));
}

TEST(LockComparison, ABindingThatUsesAnotherLockedFile) {
  expect_only(drifts_after([](Lock& now) { now.bindings[0].library = label_of(now.files[1]); }),
              "lock.file_of_binding", "silu_and_mul on cuda by vllm, library",
              "distribution vllm: vllm/_C.abi3.so", "distribution vllm: vllm/_moe_C.abi3.so");
}

TEST(LockComparison, AnotherContract) {
  expect_only(drifts_after([](Lock& now) {
                now.bindings[0].contract.schema = "_C::silu_and_mul(Tensor! result) -> ()";
              }),
              "lock.contract", "silu_and_mul on cuda by vllm",
              "_C::silu_and_mul(Tensor! out) -> () under CUDA",
              "_C::silu_and_mul(Tensor! result) -> () under CUDA");
  expect_only(drifts_after([](Lock& now) { now.bindings[2].contract.symbols.pop_back(); }),
              "lock.contract", "topk_softmax on cuda by vllm", "functions topk(at::Tensor&), other",
              "functions topk(at::Tensor&)");
}

TEST(LockComparison, AMissingBindingRepeatsWhy) {
  lock::Circumstances circumstances;
  circumstances.refusals["topk_softmax on cuda by vllm"] = "the provider is broken";
  expect_only(drifts_after([](Lock& now) { now.bindings.pop_back(); }, circumstances),
              "lock.binding_missing", "topk_softmax on cuda by vllm",
              "a usable binding, functions topk(at::Tensor&), other", "the provider is broken");
}

TEST(LockComparison, AnAddedBinding) {
  expect_only(
      drifts_after([](Lock& now) { now.bindings.push_back(testing::native("topk_softmax", 1)); }),
      "lock.binding_added", "topk_softmax on cuda by native", "no binding that is not in the lock",
      "a usable binding, the module's own topk_softmax");
}

TEST(LockComparison, AnotherOrderOfARoute) {
  expect_only(
      drifts_after([](Lock& now) { std::swap(now.bindings[0].place, now.bindings[1].place); }),
      "lock.route", "the route of silu_and_mul on cuda", "vllm, native", "native, vllm");
}

TEST(LockComparison, OtherConfiguredRoutes) {
  expect_only(drifts_after([](Lock& now) { now.routes = {}; }), "lock.route",
              "the configured routes", "*: vllm, native", "no configured route");
}

TEST(LockComparison, AChangedAMissingAndAnAddedManifest) {
  expect_only(drifts_after([](Lock& now) { now.manifests[1].sha256 = digest('0'); }),
              "lock.manifest", "vllm.yaml", "SHA-256 " + digest('2'), "SHA-256 " + digest('0'));
  expect_only(drifts_after([](Lock& now) { now.manifests.pop_back(); }), "lock.manifest",
              "vllm.yaml", "SHA-256 " + digest('2'), "no such manifest is read");
  expect_only(drifts_after([](Lock& now) {
                now.manifests.push_back({"x.yaml", digest('3')});
              }),
              "lock.manifest", "x.yaml", "no such manifest", "SHA-256 " + digest('3'));
}

TEST(LockComparison, AnOlderDriver) {
  expect_only(drifts_after([](Lock& now) { now.driver.seen = "12.9"; }), "lock.driver",
              "the NVIDIA driver", "a driver for CUDA 13.0 or newer", "a driver for CUDA 12.9");
}

TEST(LockComparison, ANewerDriverAndAStubAreNoDrift) {
  EXPECT_TRUE(drifts_after([](Lock& now) { now.driver.seen = "14.2"; }).empty());
  EXPECT_TRUE(drifts_after([](Lock& now) { now.driver = {"13.0", true, ""}; }).empty());
}

TEST(LockComparison, ALockMadeWithAStubHoldsWithARealDriverThatMeetsTheFloor) {
  Lock locked = example_lock();
  locked.driver = {"13.0", true, ""};
  EXPECT_TRUE(lock::compare(locked, example_lock(), Scope::kAll).empty());
  Lock older = example_lock();
  older.driver.seen = "12.0";
  expect_only(lock::compare(locked, older, Scope::kAll), "lock.driver", "the NVIDIA driver",
              "a driver for CUDA 13.0 or newer", "a driver for CUDA 12.0");
}

TEST(LockComparison, AMissingDriverIsToldAloneAndBeforeAnythingIsLoaded) {
  const lock::Circumstances none{false, {}};
  const auto without = [](Lock& now) {
    now.driver = {};
    now.torch.reset();
    now.files.pop_back();
    now.bindings.clear();
  };
  for (const Scope scope : {Scope::kInputs, Scope::kAll})
    expect_only(drifts_after(without, none, scope), "lock.driver", "the NVIDIA driver",
                "a driver for CUDA 13.0 or newer", "none");
}

TEST(LockComparison, BeforeTheVerdictsBindingsAreNotCompared) {
  EXPECT_TRUE(drifts_after([](Lock& now) { now.bindings.clear(); }, {}, Scope::kInputs).empty());
}

TEST(LockComparison, HostileNamesAreEscaped) {
  const auto drifts = drifts_after([](Lock& now) {
    now.manifests.push_back({"\x1b[2Jx.yaml", digest('3')});
  });
  ASSERT_EQ(drifts.size(), 1u);
  EXPECT_EQ(drifts[0].subject, "\\x1b[2Jx.yaml");
}

}  // namespace
}  // namespace opmux
