// SPDX-License-Identifier: Apache-2.0
//
// Demangled C++ functions as name and parameters, and what differs between two of them, in words.
// Reads foreign text of any content. Inside core/contract only. Thread safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opmux {

// "flash::mha_fwd(at::Tensor&, int)": a function's name as demangled, without its parameters, and
// the parameters. A text without parentheses, as a C function has it, has no parameters.
struct Signature {
  std::string name;
  std::vector<std::string> parameters;
  std::string qualifiers;  // of a member function, e.g. "const"
  bool is_function = false;
};

// Never fails: brackets that do not match end the last part.
Signature parse_signature(std::string_view demangled);

// Spaces only where two words need one, so that `> >` and `>>` are one spelling.
std::string plain_spelling(std::string_view demangled);

// The last part of a qualified name: "mha_fwd" of "flash::mha_fwd".
std::string_view last_name(std::string_view qualified);

// What is different in `found`, in words, e.g. "parameter 3 is `long` in place of `int`, another
// integer type". Empty when the two are equal.
std::string signature_difference(const Signature& expected, const Signature& found);

// The demangled name among `candidates` that is nearest to `expected`: same name with the fewest
// parameters that differ, else the same function in another namespace, else a likely misspelling.
// Empty when there is none.
std::string nearest_signature(const Signature& expected, std::span<const std::string> candidates);

}  // namespace opmux
