// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/elf/elf.hpp"

namespace opmux {
namespace {

TEST(ElfDemangle, TellsTheReadableForm) {
  EXPECT_EQ(elf::demangle("_ZN3c104cuda9SetDeviceEi"), "c10::cuda::SetDevice(int)");
  EXPECT_EQ(elf::demangle("_ZN3c104cuda9SetDeviceEa"), "c10::cuda::SetDevice(signed char)");
  EXPECT_EQ(elf::demangle("_ZTIN3c105ErrorE"), "typeinfo for c10::Error");
}

TEST(ElfDemangle, LeavesOtherNamesAlone) {
  EXPECT_EQ(elf::demangle("PyModule_Create2"), "PyModule_Create2");
  EXPECT_EQ(elf::demangle(""), "");
  EXPECT_EQ(elf::demangle("i"), "i");  // __cxa_demangle would say "int"
  EXPECT_EQ(elf::demangle("_Z"), "_Z");
  EXPECT_EQ(elf::demangle("_ZN3c10"), "_ZN3c10");
}

TEST(ElfDemangle, LeavesANameAloneWhoseReadableFormWouldBeHuge) {
  // Each level names the one before twice: 60 levels would make 2^60 characters.
  std::string name = "_Z1f1AIiE";
  for (int level = 0; level < 60; ++level) {
    const std::string index = level == 0 ? ""
                                         : std::string(1,
                                                       "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[level - 1]);
    name += "1BIS" + index + "_S" + index + "_E";
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(elf::demangle(name), name);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  const std::string longest = "_Z" + std::string(100'000, 'P') + "i";
  EXPECT_EQ(elf::demangle(longest), longest);
}

TEST(ElfDemangle, WorstNameWithinTheCapsStaysSmall) {
  // 13 levels of three references each, the most that the caps allow to grow.
  std::string name = "_Z1f1A";
  for (int level = 0; level < 13; ++level) {
    const std::string index = level == 0 ? "" : std::string(1, "0123456789ABC"[level - 1]);
    name += "1BIS" + index + "_S" + index + "_S" + index + "_E";
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_LT(elf::demangle(name).size(), std::size_t{64} << 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

}  // namespace
}  // namespace opmux
