# SPDX-License-Identifier: Apache-2.0
# Finds torch in a Python environment by looking, without running Python.

# opmux_find_torch(DIR FOLDER_VARIABLE VERSION_VARIABLE)
# DIR is the root of a virtual environment or a site-packages folder. Sets the torch package's folder and its base
# release (2.11.0 for "2.11.0+cu130"); an environment without torch, or with a torch that has no headers, is an error.
function(opmux_find_torch directory folder_variable version_variable)
  get_filename_component(directory "${directory}" ABSOLUTE)
  file(GLOB candidates
    "${directory}/torch/version.py"
    "${directory}/lib/python3*/site-packages/torch/version.py"
    "${directory}/lib64/python3*/site-packages/torch/version.py"
    "${directory}/lib/python3*/dist-packages/torch/version.py"
    "${directory}/lib/python3/dist-packages/torch/version.py")
  # lib64 is often a link to lib: one torch, found twice.
  set(folders)
  foreach(candidate IN LISTS candidates)
    get_filename_component(folder "${candidate}" DIRECTORY)
    get_filename_component(folder "${folder}" REALPATH)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  list(LENGTH folders count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "OPMUX_TORCH_ENVIRONMENTS: expected exactly one torch below ${directory} (a virtual environment "
      "or a site-packages folder), found ${count}: ${folders}")
  endif()
  if(NOT EXISTS "${folders}/include/ATen/core/dispatch/Dispatcher.h" OR NOT EXISTS "${folders}/lib/libtorch_cpu.so")
    message(FATAL_ERROR "OPMUX_TORCH_ENVIRONMENTS: ${folders} lacks torch's headers or lib/libtorch_cpu.so")
  endif()
  file(STRINGS "${folders}/version.py" line REGEX "^__version__ *=" LIMIT_COUNT 1)
  if(NOT line MATCHES "['\"]([0-9]+(\\.[0-9]+)+)")
    message(FATAL_ERROR "OPMUX_TORCH_ENVIRONMENTS: ${folders}/version.py: no release in `${line}`")
  endif()
  set(${folder_variable} "${folders}" PARENT_SCOPE)
  set(${version_variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# opmux_torch_target(NAME FOLDER): an imported target with torch's headers (as system headers) and the two libraries
# that every torch process holds. Whoever links it takes no run path along: which torch it meets is decided at run time.
function(opmux_torch_target name folder)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name} SYSTEM INTERFACE "${folder}/include")
  target_link_libraries(${name} INTERFACE "${folder}/lib/libtorch_cpu.so" "${folder}/lib/libc10.so")
  # Wheels of torch 2.6 and later use the C++11 ABI of libstdc++.
  target_compile_definitions(${name} INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
endfunction()

# opmux_fake_dispatcher_provider(NAME RELEASE definition...): one library of tests/fakes/dispatcher_provider.cpp, linked
# with the torch of RELEASE, one of the global property OPMUX_TORCH_RELEASES. The source lists the definitions.
function(opmux_fake_dispatcher_provider name release)
  add_library(${name} MODULE "${PROJECT_SOURCE_DIR}/tests/fakes/dispatcher_provider.cpp")
  target_link_libraries(${name} PRIVATE opmux_options opmux_torch_${release})
  target_compile_definitions(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "" SKIP_BUILD_RPATH ON)
endfunction()
