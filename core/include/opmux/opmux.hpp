// SPDX-License-Identifier: Apache-2.0
//
// The whole public C++ API. Public headers are C++17.
#pragma once

#include "opmux/operator.hpp"
#include "opmux/report.hpp"
#include "opmux/runtime.hpp"
#include "opmux/status.hpp"
#include "opmux/tensor_view.hpp"
