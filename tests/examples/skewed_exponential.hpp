// SPDX-License-Identifier: Apache-2.0
//
// Included before examples/provider: an exponential that is off by much more than rounding.
#pragma once

#include <cmath>

#define exp(x) exp((x)*1.001F)
