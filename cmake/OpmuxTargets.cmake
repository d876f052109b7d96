# SPDX-License-Identifier: Apache-2.0
# Target functions with the project's one set of options.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
# Plugin modules as the build tree lays them out; the install tree has <libdir>/opmux.
set(OPMUX_MODULE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/opmux")

find_program(OPMUX_CCACHE ccache)
if(OPMUX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${OPMUX_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${OPMUX_CCACHE}")
endif()

add_library(opmux_options INTERFACE)
target_include_directories(opmux_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/core/include")
target_compile_options(opmux_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Werror
  $<$<COMPILE_LANGUAGE:CXX>:$<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>>
  # g++ 12's flow analysis reports the inactive members of every std::variant.
  $<$<COMPILE_LANGUAGE:CXX>:$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>>
  # At -O3 it also sees overlapping copies in std::string's operators (GCC bug 105651).
  $<$<AND:$<CONFIG:Release>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-restrict>)
if(OPMUX_BUILD_FUZZ)
  target_compile_options(opmux_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(opmux_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(OPMUX_SANITIZE)
  target_compile_options(opmux_options INTERFACE
    -fsanitize=${OPMUX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(opmux_options INTERFACE -fsanitize=${OPMUX_SANITIZE})
endif()

# opmux_core_library(NAME SOURCES file... [DEPENDS target...] [PRIVATE target...])
# One folder under core/, one static target `opmux_NAME`. DEPENDS are stages before it; PRIVATE third-party targets stay
# inside the folder.
function(opmux_core_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(opmux_${name} STATIC ${arg_SOURCES})
  target_link_libraries(opmux_${name} PUBLIC opmux_options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY OPMUX_CORE_TARGETS opmux_${name})
endfunction()

# opmux_test(NAME SOURCES file... [LINK target...] [LABELS label...] [ENVIRONMENT var=value...] [TIMEOUT seconds]
#            [ONE_PROCESS])
# A GoogleTest binary `NAME`; each case is a ctest of its own unless ONE_PROCESS (where start-up is dear). Target
# tests_LABEL builds all tests of a label. Labels with a meaning: torch (needs a torch in the process) and gpu, neither of
# which runs under the address sanitizer; threads, which run under the thread sanitizer.
function(opmux_test name)
  cmake_parse_arguments(arg "ONE_PROCESS" "TIMEOUT" "SOURCES;LINK;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE opmux_options ${arg_LINK} GTest::gmock GTest::gtest_main)
  if(NOT OPMUX_SANITIZE)
    # Tests are compiled often and run once.
    target_compile_options(${name} PRIVATE -O1 -g0)
  endif()
  target_compile_definitions(${name} PRIVATE
    OPMUX_SOURCE_DIR="${PROJECT_SOURCE_DIR}" OPMUX_BINARY_DIR="${PROJECT_BINARY_DIR}")
  foreach(label IN LISTS arg_LABELS)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(arg_ONE_PROCESS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
      ENVIRONMENT "${arg_ENVIRONMENT}")
  else()
    include(GoogleTest)
    # An empty value would make a property of the name that follows it.
    set(properties TIMEOUT ${arg_TIMEOUT})
    foreach(property LABELS ENVIRONMENT)
      if(arg_${property})
        list(APPEND properties ${property} "${arg_${property}}")
      endif()
    endforeach()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES ${properties})
  endif()
endfunction()

# opmux_fuzz_target(NAME SOURCES file... [LINK target...])
# A libFuzzer binary with -DOPMUX_BUILD_FUZZ=ON (clang), one of the target fuzz_targets; its corpus is tests/corpus/NAME, replayed by the unit tests.
function(opmux_fuzz_target name)
  if(NOT OPMUX_BUILD_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE opmux_options ${arg_LINK})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzz_targets)
    add_custom_target(fuzz_targets)
  endif()
  add_dependencies(fuzz_targets ${name})
endfunction()
