// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opmux {

// What to do about files and folders that somebody else could change: who may write a library, a
// manifest or a cache may run code in every process that uses it.
enum class Trust {
  kLax,     // one warning in the log per path
  kStrict,  // they are refused, and what was mapped is compared with what was checked
};

}  // namespace opmux
