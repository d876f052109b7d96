// SPDX-License-Identifier: Apache-2.0
//
// Where the values of a provider's arguments come from, by the manifest's mapping.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <string>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/torch/argument.hpp"

namespace opmux::torch_shared {

// Whether an argument of the operator can be handed to an argument of the provider.
bool suits(const ArgumentType& from, const ArgumentType& to);

// The type of what a source other than a constant yields for a call of the operator. Throws a
// Refusal that begins with `subject`, the provider's argument, when the operator has no such
// argument or the source cannot be drawn from it.
ArgumentType source_type(const OpmuxCallSource& source, const c10::FunctionSchema& operator_schema,
                         const std::string& subject);

// The Refusal for a source whose type does not suit: "expected int, found float (`factor` of the
// operator)".
[[noreturn]] void refuse_source(const OpmuxCallSource& source,
                                const c10::FunctionSchema& operator_schema,
                                const std::string& subject, const std::string& expected);

// The value of an OPMUX_SOURCE_LIST_ITEM or OPMUX_SOURCE_INVERSE_SQRT for this call. False when the
// call has none; `why` then names the argument and what was expected and found.
bool draw_value(const OpmuxCallSource& source, const OpmuxCall& call,
                const std::vector<std::string>& arguments, OpmuxValue& result, std::string& why);

}  // namespace opmux::torch_shared
