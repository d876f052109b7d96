// SPDX-License-Identifier: Apache-2.0
//
// A virtual environment in a temporary folder, with distributions as pip lays them out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/discovery/discovery.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux::testing {

inline constexpr const char* kSitePackages = "lib/python3.12/site-packages";

class FakeEnvironment {
 public:
  FakeEnvironment() {
    folder_.write("pyvenv.cfg", "home = /nowhere/bin\ninclude-system-site-packages = false\n");
    std::filesystem::create_directories(site());
  }

  const std::filesystem::path& root() const { return folder_.path(); }
  std::filesystem::path site() const { return folder_ / kSitePackages; }
  std::filesystem::path operator/(const std::string& path) const { return site() / path; }

  std::filesystem::path write(const std::string& path, const std::string& content = "x") const {
    return folder_.write(std::string(kSitePackages) + "/" + path, content);
  }
  void link(const std::string& path, const std::filesystem::path& target) const {
    std::filesystem::create_directories((site() / path).parent_path());
    std::filesystem::create_symlink(target, site() / path);
  }
  // `stem` is NAME-VERSION as in the folder's name.
  void metadata(const std::string& stem) const {
    const auto dash = stem.find('-');
    write(stem + ".dist-info/METADATA", "Metadata-Version: 2.4\nName: " + stem.substr(0, dash) +
                                            "\nVersion: " + stem.substr(dash + 1) +
                                            "\n\nVersion: 9 in the description\n");
  }
  void record(const std::string& stem, const std::string& content) const {
    write(stem + ".dist-info/RECORD", content);
  }
  void torch(const std::string& version, const std::string& cuda) const {
    write("torch/version.py",
          "from typing import Optional\n\n__version__ = '" + version +
              "'\ncuda: Optional[str] = " + (cuda.empty() ? "None" : "'" + cuda + "'") + "\n");
  }

  std::vector<PythonEnvironment> environments() const {
    return find_environments({root()}, "--environment").environments;
  }

 private:
  TemporaryFolder folder_;
};

inline LibrarySource library_source(const std::string& distribution, const std::string& glob) {
  LibrarySource source;
  source.distribution = distribution;
  source.glob = glob;
  return source;
}

inline VersionRange range(const std::string& text) { return *VersionRange::parse(text); }

// Everything but the hint, which is not empty. `result` is evaluated once.
#define OPMUX_EXPECT_REJECTION(result, rule_id, subject_text, expected_text, found_text) \
  do {                                                                                   \
    const auto opmux_result = (result);                                                  \
    ASSERT_FALSE(opmux_result.ok());                                                     \
    const ::opmux::Rejection& opmux_rejection = opmux_result.rejection();                \
    EXPECT_EQ(opmux_rejection.rule, rule_id);                                            \
    EXPECT_EQ(opmux_rejection.subject, subject_text);                                    \
    EXPECT_EQ(opmux_rejection.expected, expected_text);                                  \
    EXPECT_EQ(opmux_rejection.found, found_text);                                        \
    EXPECT_FALSE(opmux_rejection.hint.empty());                                          \
  } while (false)

}  // namespace opmux::testing
