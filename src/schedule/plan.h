// The default schedule: a tree that is good without a search, from the shape of the kernel and a model of the machine.
//
// A kernel falls into one of a few kinds, each a file:
//   window.cpp        folds of small windows, each channel alone: depthwise convolutions, pooling
//   convolution.cpp   sums of products of windows: the same with lanes that results are not contiguous along
//   matmul.cpp        other sums of products over two or more kept variables: register tiles, cache blocks, packing
//   attention.cpp     two sums of products with a softmax between them: both as tiles, block by block
//   stream.cpp        everything else: elementwise chains, folds and scans with what surrounds them, moves of data
#pragma once

#include "loops/loop_tree.h"
#include "schedule/machine.h"

namespace tenon {

loops::LoopTree plan(const loops::IR& kernel, const Machine& machine);

// The kinds: nothing where the kernel is not of it.
std::optional<loops::LoopTree> plan_window(const loops::IR& kernel, const Machine& machine);
std::optional<loops::LoopTree> plan_convolution(const loops::IR& kernel, const Machine& machine);
std::optional<loops::LoopTree> plan_contraction(const loops::IR& kernel, const Machine& machine);
std::optional<loops::LoopTree> plan_attention(const loops::IR& kernel, const Machine& machine);
loops::LoopTree plan_stream(const loops::IR& kernel, const Machine& machine);

}  // namespace tenon
