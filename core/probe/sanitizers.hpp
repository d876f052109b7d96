// SPDX-License-Identifier: Apache-2.0
//
// Which sanitizer this is built with; GCC and clang say it in two ways.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OPMUX_WITH_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define OPMUX_WITH_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define OPMUX_WITH_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define OPMUX_WITH_THREAD_SANITIZER 1
#endif
