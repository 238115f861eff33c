// Compiles a kernel with some constant inputs. Everything that depends on constants alone is computed once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tenon {

// Runs preparations (schedule/ahead.h) and compiles each of their kernels once. The backend must outlive it.
class Preparer {
 public:
  explicit Preparer(const Backend& backend) : backend_(&backend) {}
  Tensor run(const loops::IR& kernel, const std::vector<Tensor>& inputs);

 private:
  const Backend* backend_;
  std::map<std::string, std::unique_ptr<Compiled>> kernels_;  // by the text of the kernel
};

// `constants`: by slot. The kernel takes the same memory as one compiled from the tree; it ignores the pointers of
// constants. Throws an Error if the type of a constant differs from the slot's.
std::unique_ptr<Compiled> compile_bound(const Backend& backend, const loops::LoopTree& tree,
                                        const std::map<int64_t, Tensor>& constants);

}  // namespace tenon
