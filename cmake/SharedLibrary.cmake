# capstan_shared: the library that BUILD_SHARED_LIBS=ON would make, of the static one's objects. Its size is measured, and
# that programs find in it what they call.
function(capstan_add_shared)
  if(TARGET capstan_shared OR BUILD_SHARED_LIBS OR CAPSTAN_CUDA OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  add_library(capstan_shared SHARED $<TARGET_OBJECTS:capstan>)
  set_target_properties(capstan_shared PROPERTIES
    OUTPUT_NAME capstan LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/shared")
  target_link_options(capstan_shared PRIVATE -Wl,-Bsymbolic-functions)
  target_link_libraries(capstan_shared PRIVATE
    -s $<TARGET_NAME_IF_EXISTS:capstan_openblas_archive>
    -Wl,--as-needed capstan::capstan)
endfunction()
