// Inside of codegen: emits a LoopTree as a function of an LLVM module.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/target.h"
#include "loops/loop_tree.h"

namespace tenon::codegen {

// Adds the kernel to a module of the target. Runs no passes. Throws an Error if the target lacks a tile of the tree.
llvm::Function* emit_kernel(llvm::Module& module, const loops::LoopTree& tree, const std::string& name,
                            const Target& target);

}  // namespace tenon::codegen
