/* The default services of kernels: the runtime's threads and its scratch memory. */
#ifndef TENON_RUNTIME_SERVICES_H
#define TENON_RUNTIME_SERVICES_H

#include "runtime/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Never null; lives as long as the process. Its functions may be called from any thread, and throw nothing. */
const tenon_services* tenon_default_services(void);

/* How many threads a parallel loop of the calling thread runs on, its own among them. */
int64_t tenon_threads(void);
/* Sets it for the process; 0 goes back to the default: $TENON_THREADS, or as many as the process may use CPUs. */
void tenon_set_threads(int64_t threads);
/* Sets it for the calling thread alone, and returns what was set before; 0 is what the process has. */
int64_t tenon_set_own_threads(int64_t threads);

#ifdef __cplusplus
}
#endif

#endif
