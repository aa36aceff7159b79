#pragma once
// Marks what a shared library exports: whole namespaces in public headers, nothing else. Clang exports everything.
#if defined(__GNUC__)
#define CAPSTAN_PUBLIC __attribute__((visibility("default")))
#else
#define CAPSTAN_PUBLIC
#endif
