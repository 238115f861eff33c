// The compiler for C++ programs that link Tenon::compiler.
//
//     #include <tenon/compiler.h>
//
//     const tenon::Imported model = tenon::import_pt2("model.pt2").value();
//     const tenon::Program program = tenon::compile_program(model.graph).value();
//     const std::vector<tenon::Tensor> outputs = program.run(std::vector{x});
//
// Each header below stands for itself, and begins with an explanation. A program may include single ones instead.
#pragma once

#include "autodiff/differentiate.h"    // gradients of graphs
#include "backends/device_backend.h"   // backends of one's own
#include "capture/import_pt2.h"        // models that PyTorch exported
#include "capture/importer.h"          // operators of PyTorch that Tenon is to learn
#include "driver/pipeline.h"           // compile_program, and its stages
#include "graph/builder.h"             // graphs, made by hand
#include "graph/evaluate.h"            // graphs, computed without being compiled
#include "graph/text.h"                // graphs as text
#include "loops/compiler.h"            // what a backend asks about a tree of loops
#include "loops/lower.h"               // graphs as loops
#include "loops/schedule.h"            // loops in another order
#include "named/tensor.h"              // tensors with named dimensions, which are loops
#include "program/artifact.h"          // files
#include "program/report.h"            // what a program does, as text
#include "tasks/local_task_backend.h"  // graphs of tasks, made by hand
#include "tenon/aten_compiler.h"       // ATen calls, for programs that record them
#include "training/instance.h"         // forward, backward, update
