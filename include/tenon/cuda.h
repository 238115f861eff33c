/* What libtenon_cuda.so offers beside tenon/device.h: the choice of a stream. Find the functions with dlsym. */
#ifndef TENON_CUDA_H
#define TENON_CUDA_H

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From now on, copies and launches that this thread submits to CUDA devices run on this stream (a CUstream or
 * cudaStream_t of the device's primary context; null: the default stream), until it chooses another one. The stream
 * must stay until the device has been given commands on another one, or is closed. Commands of a device keep their
 * order, whatever streams they run on. */
TENON_API void tenon_cuda_use_stream(void* stream);
/* On the device's own stream again, which every thread begins with. */
TENON_API void tenon_cuda_use_own_stream(void);

#ifdef __cplusplus
}
#endif

#endif
