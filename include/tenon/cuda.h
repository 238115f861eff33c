/* What libtenon_cuda.so offers beside tenon/device.h: the choice of a stream. Find the functions with dlsym. */
#ifndef TENON_CUDA_H
#define TENON_CUDA_H

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From now on, copies and launches that this thread submits to CUDA devices run on this stream (a CUstream or
 * cudaStream_t of the device's primary context; null: the default stream), until it chooses another one. The stream
 * must stay until they were waited for, as every run of a program does at its end. Commands of a device keep their
 * order, whatever streams they run on. */
TENON_API void tenon_cuda_use_stream(void* stream);
/* On the device's own stream again, which every thread begins with. */
TENON_API void tenon_cuda_use_own_stream(void);

/* CUDA graphs: a run whose commands a stream captures (cudaStreamBeginCapture) becomes part of the graph, if the run
 * needs no copies between host and GPU. Run it once before, so that all memory is there, and keep its context as long
 * as the graph. What a kernel of a graph fails with, this tells: once, after the graph has run. */
TENON_API tenon_status tenon_cuda_check_graphs(tenon_text* error);

#ifdef __cplusplus
}
#endif

#endif
