# capstan_shared: the library that BUILD_SHARED_LIBS=ON would make, of the static one's objects but for what loads
# OpenBLAS. Its size is measured, and that programs find in it what they call.
function(capstan_add_shared)
  if(TARGET capstan_shared OR BUILD_SHARED_LIBS OR CAPSTAN_CUDA OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  set(openblas "")
  add_library(capstan_shared SHARED
    $<FILTER:$<TARGET_OBJECTS:capstan>,EXCLUDE,/\(base/shared_library|cpu/lapack_loaded\)\\.cpp>)
  if(CAPSTAN_OPENBLAS_LOADED)
    target_sources(capstan_shared PRIVATE ${PROJECT_SOURCE_DIR}/lib/cpu/lapack_linked.cpp)
    target_include_directories(capstan_shared PRIVATE ${PROJECT_SOURCE_DIR})
    set(openblas capstan_openblas)
  endif()
  if(TARGET capstan_openblas_archive)
    set(openblas capstan_openblas_archive)
  endif()
  set_target_properties(capstan_shared PROPERTIES
    OUTPUT_NAME capstan CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/shared")
  target_link_options(capstan_shared PRIVATE -Wl,-Bsymbolic-functions)
  target_link_libraries(capstan_shared PRIVATE
    -s ${openblas} -Wl,--as-needed capstan::capstan)
endfunction()
