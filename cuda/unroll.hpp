#pragma once
// Before a loop over elements of a thread's own: they stay in registers only if the loop is unrolled.
#if defined(__CUDACC__)
#define CAPSTAN_UNROLL _Pragma("unroll")
#else
#define CAPSTAN_UNROLL
#endif
