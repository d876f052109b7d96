// SPDX-License-Identifier: Apache-2.0
//
// What the manifest tests share: two declared operators and short ways to read a text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/manifest/manifest.hpp"

namespace opmux {

inline const char* operators_text() {
  return R"yaml(manifest: 1
declare:
  silu_and_mul:
    schema: "silu_and_mul(Tensor input, Tensor(a!) out) -> ()"
  repack:
    schema: "repack(Tensor weight, Tensor perm, int size, int num_bits, bool is_a_8bit, Tensor(a!) out) -> ()"
  norm:
    schema: "norm(Tensor(a!) input, Tensor? weight, float epsilon, int? groups, str kind, int[] window, Tensor(b!)? rest) -> ()"
  attend:
    schema: "attend(Tensor q, float? scale, int[] window, int[]? sizes, bool causal, Tensor(a!) out, Tensor(b!)? lse) -> ()"
)yaml";
}

inline std::vector<Rejection> refused(const std::string& text,
                                      const std::vector<OperatorDeclaration>& declarations = {}) {
  auto result = parse_manifest(text, "m.yaml", declarations);
  if (auto* rejections = std::get_if<std::vector<Rejection>>(&result)) return *rejections;
  ADD_FAILURE() << "accepted:\n" << text;
  return {};
}

// The one rejection of the text.
inline Rejection refused_once(const std::string& text,
                              const std::vector<OperatorDeclaration>& declarations = {}) {
  const std::vector<Rejection> rejections = refused(text, declarations);
  for (std::size_t i = 1; i < rejections.size(); ++i)
    ADD_FAILURE() << "also: " << to_string(rejections[i]);
  return rejections.empty() ? Rejection{} : rejections.front();
}

inline Manifest accepted(const std::string& text,
                         const std::vector<OperatorDeclaration>& declarations = {}) {
  auto result = parse_manifest(text, "m.yaml", declarations);
  if (auto* manifest = std::get_if<Manifest>(&result)) return std::move(*manifest);
  for (const Rejection& rejection : std::get<std::vector<Rejection>>(result))
    ADD_FAILURE() << to_string(rejection);
  return {};
}

inline const std::vector<OperatorDeclaration>& operators() {
  static const std::vector<OperatorDeclaration> declarations =
      accepted(operators_text()).declarations;
  return declarations;
}

// A manifest of one alternative for `name`; `alternative` is in YAML's flow form, on line 8 from
// column 7.
inline std::string binding(const std::string& name, const std::string& alternative) {
  return "manifest: 1\nprovider: p\nplugin: vllm\nlibraries:\n  c: {glob: c.so}\noperators:\n  " +
         name + ":\n    - " + alternative + "\n";
}

inline Alternative accepted_alternative(const std::string& name, const std::string& alternative) {
  const Manifest manifest = accepted(binding(name, alternative), operators());
  if (manifest.operators.size() == 1 && manifest.operators[0].alternatives.size() == 1)
    return manifest.operators[0].alternatives[0];
  ADD_FAILURE() << "no alternative";
  return {};
}

inline Rejection refused_alternative(const std::string& name, const std::string& alternative) {
  return refused_once(binding(name, alternative), operators());
}

}  // namespace opmux
