# SPDX-License-Identifier: Apache-2.0
# The install tree. It has the shape of the build tree (bin, lib/opmux, share/opmux) and may be moved: nothing in it
# holds an absolute path. Plugin modules, opmux-probe, the command and the manifests are installed by their own folders.
include(CMakePackageConfigHelpers)

install(TARGETS opmux EXPORT opmuxTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY core/include/opmux DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES README.md LICENSE SECURITY.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/opmux")
install(EXPORT opmuxTargets NAMESPACE opmux:: DESTINATION "${package_folder}")
configure_package_config_file(cmake/opmuxConfig.cmake.in "${PROJECT_BINARY_DIR}/opmuxConfig.cmake"
  INSTALL_DESTINATION "${package_folder}")
# Before 1.0 a minor release may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/opmuxConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/opmuxConfig.cmake" "${PROJECT_BINARY_DIR}/opmuxConfigVersion.cmake"
  DESTINATION "${package_folder}")
