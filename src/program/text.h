// The text form of a program: its slots, its tasks with the loops of their kernels, and how its constants are computed
// of the weights. It has no weights and no machine code: the objects of kernels are beside it, by number.
//
//     symbol N
//     kernel object 0                          the loops follow, indented
//     slot f32[N, 4] input 0
//     slot f32[4, 8] constant 0
//     slot f32[N, 8] temporary 0 over 3        lies where slot 3 did
//     leaf 0 of 2                              constant 0 is leaf 2 of the graph
//     task kernel "matmul" group 0 kernel 0 ops matmul in 0 1 out 2
//     space "npu"                              the memory of a device: slots of it say `space 1`
//     kernel object 0 on "npu"                 a kernel that a device runs
//     leaf 0 of 2 in 1                         constant 0 is leaf 2 of the graph of segment 1
//     task device "segment1" group 0 on "npu" segment 1 object 2 ops relu in 0 out 3
//     output 2
//
// The cache on disk keeps programs in this form (driver/program_cache.h); so does `tenon compile --emit tasks`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/history.h"
#include "program/program.h"

namespace tenon {

struct ProgramText {
  std::string text;
  std::vector<std::string> objects;  // of kernels; empty for kernels that have none
};

ProgramText text_of(const Program& program, const ConstantHistory& history);

struct ParsedProgram {
  Program program;
  ConstantHistory history;
};

// The program that the text describes, for a graph that differs from the original in the data of its leaves alone:
// `source` as given, `ready` as fused. Constants are computed anew from the leaves. Nothing is compiled if the objects
// are there; else `options.backend` and devices compile the kernels. `segments` are the graphs of devices' segments.
// The program has no runner yet. Throws an Error for a text that does not describe such a program.
ParsedProgram parse_program(const ProgramText& text, std::shared_ptr<const Graph> source, const Graph& ready,
                            const ProgramOptions& options, std::span<const std::shared_ptr<const Graph>> segments = {});

}  // namespace tenon
