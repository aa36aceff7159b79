# After `cmake --install`, another project says: find_package(capstan 0.1 REQUIRED), and links capstan::capstan.
include(CMakePackageConfigHelpers)

# Folders that are made on the way are for everybody, whatever the umask of who installs.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/capstan)
install(TARGETS capstan EXPORT capstanTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/capstan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT capstanTargets NAMESPACE capstan:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/capstanConfig.cmake.in
  ${PROJECT_BINARY_DIR}/capstanConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/capstanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/capstanConfig.cmake ${PROJECT_BINARY_DIR}/capstanConfigVersion.cmake
  DESTINATION ${package_dir})

if(BUILD_SHARED_LIBS AND TARGET capstan_openblas_archive)  # whose license asks for it
  install(FILES ${CAPSTAN_OPENBLAS_LICENSE} RENAME OpenBLAS.copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/capstan/licenses)
endif()

foreach(tool IN ITEMS capstan-plot-run capstan-weights)
  if(TARGET ${tool})
    install(TARGETS ${tool})
  endif()
endforeach()

# What teaches debuggers to show tensors: docs/debuggers.md.
set(debuggers ${PROJECT_SOURCE_DIR}/debuggers)
install(FILES ${debuggers}/capstan_gdb.py ${debuggers}/capstan_layout.py ${debuggers}/capstan_lldb.py
  ${debuggers}/capstan_printers.py ${debuggers}/capstan_text.py ${debuggers}/capstan.natvis
  DESTINATION ${CMAKE_INSTALL_DATADIR}/capstan/debuggers)
if(BUILD_SHARED_LIBS AND UNIX)
  # gdb looks here for the path of every library that it loads; the prefix is known only when installing.
  install(FILES ${debuggers}/capstan_autoload.py RENAME $<TARGET_FILE_NAME:capstan>-gdb.py
    DESTINATION ${CMAKE_INSTALL_DATADIR}/gdb/auto-load\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR})
endif()
