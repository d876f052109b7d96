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

# opmux_torch_module(NAME RELEASE SOURCES file... [LINK target...]): the plugin module NAME for the torch of RELEASE, one of
# the global property OPMUX_TORCH_RELEASES: target opmux_NAME_torch_RELEASE, file opmux_NAME.torch-RELEASE.so.
function(opmux_torch_module name release)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  set(module opmux_${name}_torch_${release})
  set(exports "${PROJECT_SOURCE_DIR}/plugins/torch/exports.map")
  add_library(${module} MODULE ${arg_SOURCES})
  target_link_libraries(${module} PRIVATE opmux_torch_shared_${release} ${arg_LINK})
  target_link_options(${module} PRIVATE -Wl,-Bsymbolic-functions "-Wl,--version-script=${exports}")
  target_compile_definitions(${module} PRIVATE OPMUX_VERSION="${PROJECT_VERSION}")
  set_target_properties(${module} PROPERTIES
    PREFIX "" OUTPUT_NAME "opmux_${name}.torch-${release}"
    LINK_DEPENDS "${exports}"
    LIBRARY_OUTPUT_DIRECTORY "${OPMUX_MODULE_OUTPUT_DIRECTORY}"
    SKIP_BUILD_RPATH ON INSTALL_RPATH "" INSTALL_RPATH_USE_LINK_PATH OFF)
  install(TARGETS ${module} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/opmux")
endfunction()

# opmux_fake_dispatcher_provider(NAME RELEASE definition...): one library of tests/fakes/dispatcher_provider.cpp, linked
# with the torch of RELEASE, one of the global property OPMUX_TORCH_RELEASES. The source lists the definitions.
function(opmux_fake_dispatcher_provider name release)
  add_library(${name} MODULE "${PROJECT_SOURCE_DIR}/tests/fakes/dispatcher_provider.cpp")
  target_link_libraries(${name} PRIVATE opmux_options opmux_torch_${release})
  target_compile_definitions(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "" SKIP_BUILD_RPATH ON)
endfunction()
