// SPDX-License-Identifier: Apache-2.0
//
// The spelling of the types that hold no other type; private to this folder.
#pragma once

#include <string_view>
#include <utility>

#include "core/schema/schema.hpp"

namespace opmux::schema {

// The first spelling of a kind is the one that is printed.
inline constexpr std::pair<TypeKind, std::string_view> kTypeNames[] = {
    {TypeKind::kTensor, "Tensor"},
    {TypeKind::kInt, "int"},
    {TypeKind::kSymInt, "SymInt"},
    {TypeKind::kFloat, "float"},
    {TypeKind::kBool, "bool"},
    {TypeKind::kString, "str"},
    {TypeKind::kScalar, "Scalar"},
    {TypeKind::kScalar, "number"},
    {TypeKind::kScalarType, "ScalarType"},
    {TypeKind::kLayout, "Layout"},
    {TypeKind::kDevice, "Device"},
    {TypeKind::kMemoryFormat, "MemoryFormat"},
    {TypeKind::kGenerator, "Generator"},
    {TypeKind::kDimname, "Dimname"},
    {TypeKind::kStorage, "Storage"},
    {TypeKind::kStream, "Stream"},
    {TypeKind::kAny, "Any"},
};

}  // namespace opmux::schema
