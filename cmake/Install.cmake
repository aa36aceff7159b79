# After `cmake --install`, another project says: find_package(capstan 0.1 REQUIRED), and links capstan::capstan.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/capstan)
install(TARGETS capstan EXPORT capstanTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/capstan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT capstanTargets NAMESPACE capstan:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/capstanConfig.cmake.in
  ${PROJECT_BINARY_DIR}/capstanConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/capstanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/capstanConfig.cmake ${PROJECT_BINARY_DIR}/capstanConfigVersion.cmake
  DESTINATION ${package_dir})
