# capstan_precompile(target header), or (target REUSE_FROM other): the header is compiled once and included in each
# source of the target. For tests, most of whose compiling is that of the library's and others' headers.
function(capstan_precompile target)
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGV1})
  endif()
  if(CAPSTAN_CCACHE AND "${CMAKE_CXX_COMPILER_LAUNCHER}" STREQUAL "${CAPSTAN_CCACHE}")
    # What ccache asks for: it looks at the header's own bytes instead of what it defines. At comments, too: by the bytes
    # of a file with `#pragma once` g++ knows whether the precompiled header has it already. What a source includes it
    # reads off the compiler's own list, for preprocessing beside that header takes a fifth of compiling.
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_COMMENTS=1;CCACHE_DEPEND=1;${CAPSTAN_CCACHE}")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  endif()
endfunction()
