// SPDX-License-Identifier: Apache-2.0
//
// Python's library in a process, once. What one case maps stays mapped, so each has a process of
// its own.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/loader/loader.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

using fakes::libpython;

PythonLibrary python(const std::string& version = "3.99") {
  return {libpython(version), "libpython" + version + ".so.1.0", version};
}

void* version_function() { return dlsym(RTLD_DEFAULT, "Py_GetVersion"); }

class PreloadPython : public ::testing::Test {
 protected:
  template <class Body>
  void in_own_process(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  static void expect_conflict(const Check& refused, const std::string& found) {
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->stage, "loader");
    EXPECT_EQ(refused->rule, "loader.python_conflict");
    EXPECT_EQ(refused->subject, python().path.native());
    EXPECT_EQ(refused->expected, "Python 3.99, or none, in this process");
    EXPECT_EQ(refused->found, found);
  }

  static void map(const fs::path& path, int flags) {
    ASSERT_NE(dlopen(path.c_str(), RTLD_NOW | flags), nullptr) << dlerror();
  }
};

TEST_F(PreloadPython, ShowsItsFunctionsToAllLibraries) {
  in_own_process([] {
    ASSERT_EQ(version_function(), nullptr) << "this program has a Python";
    const Check refused = preload_python(python(), nullptr);
    EXPECT_FALSE(refused) << to_string(*refused);
    EXPECT_NE(version_function(), nullptr);
    EXPECT_FALSE(preload_python(python(), nullptr)) << "the same again is no conflict";
  });
}

TEST_F(PreloadPython, IsRefusedWhereThereIsNone) {
  in_own_process([] {
    PythonLibrary nowhere = python();
    nowhere.path = "/nowhere/libpython3.99.so.1.0";
    const Check refused = preload_python(nowhere, nullptr);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->rule, "loader.open_failed");
    EXPECT_EQ(refused->subject, "/nowhere/libpython3.99.so.1.0");
  });
}

TEST_F(PreloadPython, UsesTheOneThatTheProcessShows) {
  in_own_process([] {
    const testing::TemporaryFolder folder;
    const fs::path other_place = folder / "libpython3.99.so.1.0";
    fs::copy_file(libpython("3.99"), other_place);
    map(other_place, RTLD_GLOBAL);
    const Check refused = preload_python(python(), nullptr);
    EXPECT_FALSE(refused) << to_string(*refused);
    EXPECT_EQ(dlopen(python().path.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr)
        << "a second Python was mapped";
  });
}

TEST_F(PreloadPython, ShowsTheOneThatItsOwnerMappedForItself) {
  in_own_process([] {
    const testing::TemporaryFolder folder;
    const fs::path other_place = folder / "libpython3.99.so.1.0";
    fs::copy_file(libpython("3.99"), other_place);
    map(other_place, RTLD_LOCAL);
    ASSERT_EQ(version_function(), nullptr);
    const Check refused = preload_python(python(), nullptr);
    EXPECT_FALSE(refused) << to_string(*refused);
    EXPECT_NE(version_function(), nullptr);
    EXPECT_EQ(dlopen(python().path.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr)
        << "a second Python was mapped";
  });
}

// Programs that embed Python may open the link that compilers are given.
TEST_F(PreloadPython, ShowsTheOneThatItsOwnerMappedByTheDevelopmentLink) {
  in_own_process([] {
    const testing::TemporaryFolder folder;
    fs::copy_file(libpython("3.99"), folder / "libpython3.99.so.1.0");
    fs::create_symlink("libpython3.99.so.1.0", folder / "libpython3.99.so");
    map(folder / "libpython3.99.so", RTLD_LOCAL);
    ASSERT_EQ(version_function(), nullptr);
    const Check refused = preload_python(python(), nullptr);
    EXPECT_FALSE(refused) << to_string(*refused);
    EXPECT_NE(version_function(), nullptr);
    EXPECT_EQ(dlopen(python().path.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr)
        << "a second Python was mapped";
  });
}

TEST_F(PreloadPython, RefusesAnotherVersionThatItsOwnerMappedByTheDevelopmentLink) {
  in_own_process([] {
    const testing::TemporaryFolder folder;
    const fs::path link = folder / "libpython3.98.so";
    fs::create_symlink(libpython("3.98"), link);
    map(link, RTLD_LOCAL);
    expect_conflict(preload_python(python(), nullptr), link.native() + ", Python 3.98");
  });
}

TEST_F(PreloadPython, RefusesAnotherVersionThatTheProcessShows) {
  in_own_process([] {
    map(libpython("3.98"), RTLD_GLOBAL);
    expect_conflict(preload_python(python(), nullptr), "Python 3.98");
  });
}

TEST_F(PreloadPython, RefusesAnotherVersionThatItsOwnerMappedForItself) {
  in_own_process([] {
    map(libpython("3.98"), RTLD_LOCAL);
    expect_conflict(preload_python(python(), nullptr),
                    libpython("3.98").native() + ", Python 3.98");
  });
}

TEST_F(PreloadPython, TellsABuildWithoutTheGlobalLockApart) {
  in_own_process([] {
    map(libpython("3.99t"), RTLD_GLOBAL);
    expect_conflict(preload_python(python(), nullptr), "Python 3.99t");
    const Check refused = preload_python(python("3.99t"), nullptr);
    EXPECT_FALSE(refused) << to_string(*refused);
  });
}

// libpython3.so forwards to the library of a version.
TEST_F(PreloadPython, DoesNotTakeTheStableAbisLibraryForAPython) {
  in_own_process([] {
    map(fs::path(OPMUX_FAKE_DIRECTORY) / "python/libpython3.so", RTLD_LOCAL);
    const Check refused = preload_python(python(), nullptr);
    EXPECT_FALSE(refused) << to_string(*refused);
  });
}

TEST_F(PreloadPython, MapsTorchsPythonLibraryWithIt) {
  in_own_process([] {
    const testing::TemporaryFolder folder;
    TorchInstallation torch;
    torch.library_folder = folder.path();
    const Check missing = preload_python(python(), &torch);
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->rule, "loader.open_failed");
    EXPECT_EQ(missing->subject, (folder / "libtorch_python.so").native());
    fs::copy_file(fakes::path("none"), folder / "libtorch_python.so");
    EXPECT_FALSE(preload_python(python(), &torch));
    EXPECT_NE(dlopen((folder / "libtorch_python.so").c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  });
}

}  // namespace
}  // namespace opmux
