// SPDX-License-Identifier: Apache-2.0
//
// Findings on disk, one file per load set, named by everything that could change what a probe
// finds. Thread safety: files are replaced whole, so readers and writers of any process may meet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/probe/messages.hpp"
#include "core/probe/probe.hpp"

namespace opmux::probing {

// The name of a load set's entry: a hash over the identity of its files, torch, the driver, the
// devices that are visible, the CPU's features, the dynamic linker's cache, opmux-probe and its
// limit of memory.
std::string findings_key(const LoadSet& load_set, const std::filesystem::path& executable,
                         std::uint64_t memory_limit);

// Nothing when there is no entry, or none that can be trusted: owned by another user, writable by
// others, cut, changed, or of another load set. The reason goes to the log at debug.
std::optional<Findings> read_findings(const std::filesystem::path& cache_folder,
                                      const std::string& key, const LoadSet& load_set,
                                      bool verify_content);

// SHA-256 of the modules, then the libraries; an empty text for a file that cannot be read.
Digests digest_files(const LoadSet& load_set);

// Findings that may be different next time are not stored. A cache that cannot be written costs one
// line of the log.
void write_findings(const std::filesystem::path& cache_folder, const std::string& key,
                    const Findings& findings, const Digests& digests);

// False when the same probe may end otherwise another time: at a deadline, or ended from outside.
bool worth_keeping(const Findings& findings);

// The content of an entry's file, and back; `fault` says why it is none.
std::string findings_file_text(const Findings& findings, const Digests& digests);
std::optional<Findings> parse_findings_file(std::string_view content, Digests& digests,
                                            std::string& fault);

}  // namespace opmux::probing
