// SPDX-License-Identifier: Apache-2.0
//
// What was generated, as lines for people and as one JSON object.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "compare.hpp"
#include "generate.hpp"

namespace decoder {

std::string to_line(std::size_t index, const Step& step);
std::string to_line(const opmux::ChangeReport& change);
std::string to_text(const Run& run, const std::optional<Comparison>& comparison);
// With what ended the run before its end, when `status` is an error.
std::string to_json(const Model& model, std::uint64_t seed, const Run& run,
                    const std::optional<Comparison>& comparison, const opmux::Report& report,
                    const opmux::Status& status);
// Why there is no run, as the opmux command prints it.
std::string to_json(const opmux::Status& status);

}  // namespace decoder
