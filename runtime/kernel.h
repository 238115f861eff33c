/* The signature of a compiled kernel, and the services that a kernel may ask of its caller. C11: emitted code, the
 * compiler and the runtime share this file. */
#ifndef TENON_RUNTIME_KERNEL_H
#define TENON_RUNTIME_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs one stretch [begin, end) of a loop: 0, or the kind of an error that ends the loop. */
typedef int64_t (*tenon_stretch)(void* context, int64_t begin, int64_t end);

/* What a kernel may ask for. Each function gets the struct itself, so that a larger struct can begin with it. */
typedef struct tenon_services tenon_services;
struct tenon_services {
  /* Calls `stretch` for stretches that make up [begin, end), until one returns an error; returns that. */
  int64_t (*parallel_for)(const tenon_services* services, int64_t begin, int64_t end, tenon_stretch stretch,
                          void* context);
  /* Scratch memory, aligned to 64 bytes; null where there is none. Released by the thread that allocated it. */
  void* (*allocate)(const tenon_services* services, int64_t bytes);
  void (*release)(const tenon_services* services, void* memory);
};

/* What goes wrong on the way: error[0] of a kernel, which starts as 0. error[1] is the number of the node; error[2] and
 * error[3] are a value and a bound. The first of several threads tells. */
enum { kTenonOutOfRange = 1, kTenonDivisionByZero = 2, kTenonOutOfMemory = 3 };

/* `memory` is the kernel's inputs by slot, then its outputs by slot. An output overlaps no other array, but may be the
 * very memory of one input where the compiler found that each element is read before it is written
 * (src/loops/in_place.h). `sizes` are the values of its symbols. */
typedef int64_t (*tenon_kernel)(void* const* memory, const int64_t* sizes, int64_t* error,
                                const tenon_services* services);

#ifdef __cplusplus
}
#endif

#endif
