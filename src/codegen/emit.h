// Inside of codegen: a LoopTree as a function of an LLVM module.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/target.h"
#include "loops/loop_tree.h"

namespace tenon::codegen {

// Adds the kernel to a module that is set up for the target. No passes are run. Throws an Error for a tile that the
// target lacks.
llvm::Function* emit_kernel(llvm::Module& module, const loops::LoopTree& tree, const std::string& name,
                            const Target& target);

}  // namespace tenon::codegen
