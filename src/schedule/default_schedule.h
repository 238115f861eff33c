// The default schedule of a kernel: fast without a search, chosen from the shape of the kernel and the model of the
// machine.
//
// There are a few kinds of kernels, each scheduled by one file:
//   window.cpp        folds of small windows of one channel: depthwise convolutions, pooling
//   convolution.cpp   sums of products of windows, with output channels as lanes
//   matmul.cpp        other sums of products: register tiles, cache blocks, packing
//   attention.cpp     two sums of products with a softmax between them
//   stream.cpp        everything else: elementwise chains, folds, scans, moves of data
#pragma once

#include "loops/loop_tree.h"
#include "machine/machine.h"

namespace tenon {

loops::LoopTree default_schedule(const loops::IR& kernel, const Machine& machine);

// The schedule of one kind. Empty if the kernel is of another kind.
std::optional<loops::LoopTree> schedule_window(const loops::IR& kernel, const Machine& machine);
std::optional<loops::LoopTree> schedule_convolution(const loops::IR& kernel, const Machine& machine);
std::optional<loops::LoopTree> schedule_contraction(const loops::IR& kernel, const Machine& machine);
std::optional<loops::LoopTree> schedule_attention(const loops::IR& kernel, const Machine& machine);
loops::LoopTree schedule_stream(const loops::IR& kernel, const Machine& machine);

}  // namespace tenon
