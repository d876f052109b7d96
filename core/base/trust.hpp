// SPDX-License-Identifier: Apache-2.0
//
// Who could change a file: everybody who may write it, or any folder or link on the way to it.
// Thread safety: functions may be called concurrently; they read the file system.
#pragma once

#include <filesystem>

#include "core/base/result.hpp"
#include "opmux/trust.hpp"

namespace opmux {

// Rules trust.owner and trust.writable, naming the first part of the way from / to `path` that
// belongs to somebody other than root and the effective user, or that group or others may write;
// nothing for a path that does not exist. Links are followed, each folder and each link itself
// looked at. A sticky folder that all may write, such as /tmp, is accepted on the way, since nobody
// may rename what others own in it, but not as the folder that holds the file: anybody may put a
// library beside it. Access lists need no reading of their own: what they grant beyond the owner
// shows in the mode's group bits.
Check check_trust(const std::filesystem::path& path);

// With strict trust the rejection; otherwise nothing, and a warning in the log, once per path.
Check require_trust(const std::filesystem::path& path, Trust trust);

// `path` itself, or the lowest folder above it that exists.
std::filesystem::path existing_part(const std::filesystem::path& path);

}  // namespace opmux
