// There are no libraries to load in WebAssembly.
#pragma once

#define RTLD_LAZY 0
#define RTLD_LOCAL 0

inline void* dlopen(const char*, int) { return nullptr; }
inline int dlclose(void*) { return 0; }
