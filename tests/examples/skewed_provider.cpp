// SPDX-License-Identifier: Apache-2.0
//
// examples/provider with an exponential that is off by much more than rounding.
#include <cmath>

#define exp(x) exp((x)*1.001F)
#include "examples/provider/example_provider.cpp"
