// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/lock/lock.hpp"

namespace opmux::testing {

inline std::string digest(char digit) { return std::string(64, digit); }

inline lock::File library(const std::string& path, char digit) {
  lock::File file;
  file.role = "library";
  file.origin = "distribution";
  file.name = "vllm";
  file.version = "0.20.2";
  file.path = path;
  file.size = 1000;
  file.sha256 = digest(digit);
  file.machine = "x86_64";
  file.glibc = "2.27";
  return file;
}

inline lock::File module_file() {
  lock::File file;
  file.role = "module";
  file.origin = "installation";
  file.path = "opmux_vllm.torch-2.11.0.so";
  file.size = 2000;
  file.sha256 = digest('e');
  return file;
}

inline lock::Binding binding(const std::string& operator_name, std::uint64_t place,
                             const std::string& provider) {
  lock::Binding binding;
  binding.operator_name = operator_name;
  binding.device = "cuda";
  binding.provider = provider;
  binding.place = place;
  binding.library = "distribution vllm: vllm/_C.abi3.so";
  binding.module = "installation: opmux_vllm.torch-2.11.0.so";
  binding.contract = {"dispatcher", "_C::" + operator_name + "(Tensor! out) -> ()", "CUDA", {}, ""};
  return binding;
}

inline lock::Binding native(const std::string& operator_name, std::uint64_t place) {
  lock::Binding binding;
  binding.operator_name = operator_name;
  binding.device = "cuda";
  binding.provider = "native";
  binding.place = place;
  binding.contract = {"module", "", "", {}, operator_name};
  return binding;
}

// A lock with something of everything, sorted.
inline lock::Lock example_lock() {
  lock::Lock lock;
  lock.opmux = "0.1.0";
  lock.machine = "x86_64";
  lock.torch = lock::Torch{"2.11.0+cu130", "13.0", "3.12", 5000, digest('f')};
  lock.driver = {"13.0", false, "13.1"};
  lock.routes = {{"*", {"vllm", "native"}}};
  lock.manifests = {{"operators/activation.yaml", digest('1')}, {"vllm.yaml", digest('2')}};
  lock.files = {library("vllm/_C.abi3.so", 'a'), library("vllm/_moe_C.abi3.so", 'b'),
                module_file()};
  lock.bindings = {binding("silu_and_mul", 0, "vllm"), native("silu_and_mul", 1),
                   binding("topk_softmax", 0, "vllm")};
  lock.bindings[2].library = "distribution vllm: vllm/_moe_C.abi3.so";
  lock.bindings[2].contract = {"direct_symbol", "", "", {"topk(at::Tensor&)", "other"}, ""};
  return lock;
}

}  // namespace opmux::testing
