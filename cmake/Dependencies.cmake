# Every third-party library, found in this one file; nothing is downloaded. What is missing switches its feature off,
# and the summary says which Debian or Ubuntu package brings it. A prefix with unpacked packages works too:
# -DCMAKE_PREFIX_PATH=$HOME/deps/usr

# Adds one line to the summary. An empty version means: not found.
function(capstan_report name version feature package)
  string(SUBSTRING "${name}              " 0 14 name)
  if(version)
    string(SUBSTRING "${version}          " 0 10 version)
    string(APPEND capstan_summary "\n--   ${name}${version}${feature}")
  else()
    string(APPEND capstan_summary "\n--   ${name}-         not found, so without: ${feature} (apt install ${package})")
  endif()
  set(capstan_summary "${capstan_summary}" PARENT_SCOPE)
endfunction()

# A library of headers alone: defines ${target} and ${target}_VERSION, read from ${macro}_VERSION_* in the first of
# the given headers that is there.
function(capstan_find_headers target macro)
  find_path(${target}_INCLUDE_DIR NAMES ${ARGN})
  mark_as_advanced(${target}_INCLUDE_DIR)
  foreach(header IN LISTS ARGN)
    if(${target}_INCLUDE_DIR AND EXISTS "${${target}_INCLUDE_DIR}/${header}" AND NOT TARGET ${target})
      file(STRINGS "${${target}_INCLUDE_DIR}/${header}" lines REGEX "define ${macro}_VERSION_(MAJOR|MINOR|PATCH)")
      string(REGEX MATCHALL "[0-9]+" version "${lines}")
      list(JOIN version "." version)
      set(${target}_VERSION "${version}" PARENT_SCOPE)
      add_library(${target} INTERFACE IMPORTED)
      target_include_directories(${target} INTERFACE "${${target}_INCLUDE_DIR}")
    endif()
  endforeach()
endfunction()

# --- the library -------------------------------------------------------------------------------------------------

find_package(Threads REQUIRED)

# Debian keeps the headers and the library of the build with threads in folders of their own.
find_path(CAPSTAN_OPENBLAS_INCLUDE_DIR openblas_config.h PATH_SUFFIXES openblas-pthread openblas)
find_library(CAPSTAN_OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread)
mark_as_advanced(CAPSTAN_OPENBLAS_INCLUDE_DIR CAPSTAN_OPENBLAS_LIBRARY)
set(openblas_version "")
if(CAPSTAN_OPENBLAS_INCLUDE_DIR AND CAPSTAN_OPENBLAS_LIBRARY)
  file(STRINGS "${CAPSTAN_OPENBLAS_INCLUDE_DIR}/openblas_config.h" openblas_version REGEX "define OPENBLAS_VERSION")
  string(REGEX MATCH "[0-9]+[.0-9]*" openblas_version "${openblas_version}")
  add_library(capstan_openblas UNKNOWN IMPORTED)
  set_target_properties(capstan_openblas PROPERTIES
    IMPORTED_LOCATION "${CAPSTAN_OPENBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAPSTAN_OPENBLAS_INCLUDE_DIR}")
endif()
capstan_report(OpenBLAS "${openblas_version}" "products of matrices; required" libopenblas-pthread-dev)

# LAPACK comes inside of Debian's and Ubuntu's OpenBLAS. Called by its Fortran names: it brings no header.
set(CAPSTAN_LAPACK OFF)
set(lapack_version "")
if(TARGET capstan_openblas)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES ${CAPSTAN_OPENBLAS_LIBRARY})
  check_cxx_source_compiles("extern \"C\" void dgesdd_(); int main() { dgesdd_(); }" CAPSTAN_OPENBLAS_HAS_LAPACK)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(CAPSTAN_OPENBLAS_HAS_LAPACK)
    set(CAPSTAN_LAPACK ON)
    set(lapack_version "${openblas_version}")
  endif()
endif()
capstan_report(LAPACK "${lapack_version}" "systems of equations, decompositions" libopenblas-pthread-dev)

find_package(ZLIB QUIET)
capstan_report(zlib "${ZLIB_VERSION_STRING}" "gzip files; required" zlib1g-dev)

capstan_find_headers(capstan_xsimd XSIMD xsimd/config/xsimd_config.hpp)
set(CAPSTAN_XSIMD OFF)
if(CAPSTAN_SIMD AND capstan_xsimd_VERSION VERSION_GREATER_EQUAL 8)
  set(CAPSTAN_XSIMD ON)
endif()
if(CAPSTAN_XSIMD OR NOT CAPSTAN_SIMD OR NOT capstan_xsimd_VERSION)
  capstan_report(xsimd "${capstan_xsimd_VERSION}" "SIMD kernels" libxsimd-dev)
else()
  capstan_report(xsimd "${capstan_xsimd_VERSION}" "too old for SIMD kernels, which need 8; scalar kernels instead" "")
endif()

capstan_find_headers(capstan_xtl XTL xtl/xtl_config.hpp)
capstan_find_headers(capstan_xtensor XTENSOR xtensor/xtensor_config.hpp xtensor/core/xtensor_config.hpp)
set(CAPSTAN_XTENSOR OFF)
if(TARGET capstan_xtl AND TARGET capstan_xtensor)
  set(CAPSTAN_XTENSOR ON)
  target_link_libraries(capstan_xtensor INTERFACE capstan_xtl)
endif()
capstan_report(xtl "${capstan_xtl_VERSION}" "what xtensor stands on" xtl-dev)
capstan_report(xtensor "${capstan_xtensor_VERSION}" "exchange with xtensor expressions" libxtensor-dev)

# What private headers of lib/cpu may include.
add_library(capstan_cpu_headers INTERFACE)
if(CAPSTAN_XSIMD)
  target_link_libraries(capstan_cpu_headers INTERFACE capstan_xsimd)
  target_compile_definitions(capstan_cpu_headers INTERFACE CAPSTAN_HAS_XSIMD=1)
endif()
if(CAPSTAN_LAPACK)
  target_compile_definitions(capstan_cpu_headers INTERFACE CAPSTAN_HAS_LAPACK=1)
endif()

if(CAPSTAN_CUDA)
  find_package(CUDAToolkit 12.4 QUIET)
  capstan_report(CUDA "${CUDAToolkit_VERSION}" "GPUs; required by CAPSTAN_CUDA=ON, 12.4 or newer" nvidia-cuda-toolkit)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)  # 90 as machine code and as PTX, for what comes after it
  endif()
  if(CUDAToolkit_NVCC_EXECUTABLE AND NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  if(CAPSTAN_CCACHE AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${CAPSTAN_CCACHE}")
  endif()

  set(CAPSTAN_CUDNN OFF)
  find_path(CAPSTAN_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CAPSTAN_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(CAPSTAN_CUDNN_INCLUDE_DIR CAPSTAN_CUDNN_LIBRARY)
  set(cudnn_version "")
  if(CAPSTAN_CUDNN_INCLUDE_DIR AND CAPSTAN_CUDNN_LIBRARY)
    file(STRINGS "${CAPSTAN_CUDNN_INCLUDE_DIR}/cudnn_version.h" cudnn_version
         REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]")
    string(REGEX MATCHALL "[0-9]+" cudnn_version "${cudnn_version}")
    list(JOIN cudnn_version "." cudnn_version)
    if(cudnn_version VERSION_GREATER_EQUAL 9)
      set(CAPSTAN_CUDNN ON)
      add_library(capstan_cudnn UNKNOWN IMPORTED)
      set_target_properties(capstan_cudnn PROPERTIES
        IMPORTED_LOCATION "${CAPSTAN_CUDNN_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAPSTAN_CUDNN_INCLUDE_DIR}")
    endif()
  endif()
  capstan_report(cuDNN "${cudnn_version}" "convolutions on GPUs, 9 or newer; else kernels of Capstan's own" cudnn9-cuda-13)
endif()

# --- tests, samples, benchmarks ------------------------------------------------------------------------------------

if(CAPSTAN_TESTS)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  find_package(Catch2 QUIET)
  find_package(nlohmann_json QUIET)
  capstan_report(Catch2 "${Catch2_VERSION}" "tests" catch2)
  # Its headers alone: the CUDA backend is tested on a simulated GPU, whose threads change stacks by x86-64's rules.
  set(CAPSTAN_SIMULATED_GPU OFF)
  if(NOT CAPSTAN_CUDA AND CAPSTAN_X86_64 AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    find_package(CUDAToolkit 12.4 QUIET)
    if(CUDAToolkit_FOUND)
      set(CAPSTAN_SIMULATED_GPU ON)
    endif()
    capstan_report("CUDA headers" "${CUDAToolkit_VERSION}" "tests of the CUDA backend on a simulated GPU" nvidia-cuda-toolkit)
  endif()
  capstan_report(nlohmann_json "${nlohmann_json_VERSION}" "tests" nlohmann-json3-dev)
  capstan_report(Python "${Python3_VERSION}" "tests of layers, headers, symbols and documents" python3)
endif()
if(CAPSTAN_SAMPLES)
  find_package(CLI11 QUIET)
  capstan_report(CLI11 "${CLI11_VERSION}" "samples" libcli11-dev)
endif()
if(CAPSTAN_BENCH)
  find_package(benchmark QUIET)
  capstan_report(benchmark "${benchmark_VERSION}" "benchmarks" libbenchmark-dev)

  # LibTorch's own configuration file asks for much that its headers and three libraries do not need.
  find_path(CAPSTAN_TORCH_DIR ATen/ATen.h)
  find_path(CAPSTAN_TORCH_API_DIR torch/torch.h PATH_SUFFIXES torch/csrc/api/include)
  find_library(CAPSTAN_TORCH_LIBRARY torch)
  find_library(CAPSTAN_TORCH_CPU_LIBRARY torch_cpu)
  find_library(CAPSTAN_TORCH_C10_LIBRARY c10)
  set(CAPSTAN_TORCH_INCLUDE_DIRS "${CAPSTAN_TORCH_DIR}" "${CAPSTAN_TORCH_API_DIR}")
  set(CAPSTAN_TORCH_LIBRARIES "${CAPSTAN_TORCH_LIBRARY}" "${CAPSTAN_TORCH_CPU_LIBRARY}" "${CAPSTAN_TORCH_C10_LIBRARY}")
  mark_as_advanced(CAPSTAN_TORCH_DIR CAPSTAN_TORCH_API_DIR CAPSTAN_TORCH_LIBRARY CAPSTAN_TORCH_CPU_LIBRARY
                   CAPSTAN_TORCH_C10_LIBRARY)
  set(CAPSTAN_TORCH_FOUND ON)
  set(torch_version "")
  if("${CAPSTAN_TORCH_INCLUDE_DIRS};${CAPSTAN_TORCH_LIBRARIES}" MATCHES "NOTFOUND")
    set(CAPSTAN_TORCH_FOUND OFF)
  else()
    file(STRINGS "${CAPSTAN_TORCH_API_DIR}/torch/version.h" torch_version
         REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]")
    string(REGEX MATCHALL "[0-9]+" torch_version "${torch_version}")
    list(JOIN torch_version "." torch_version)
  endif()
  capstan_report(LibTorch "${torch_version}" "the peer in benchmarks" libtorch-dev)
endif()

message(STATUS "Capstan ${PROJECT_VERSION} with${capstan_summary}")
if(NOT TARGET capstan_openblas OR NOT ZLIB_FOUND OR (CAPSTAN_CUDA AND NOT CUDAToolkit_FOUND))
  message(FATAL_ERROR "A required library is missing; the summary above names it. scripts/setup installs them all.")
endif()
