// A kernel some of whose inputs are known when it is compiled: what depends on them alone is computed once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tenon {

// Runs preparations (schedule/ahead.h), and compiles each kernel of theirs once. The backend must outlive it.
class Preparer {
 public:
  explicit Preparer(const Backend& backend) : backend_(&backend) {}
  Tensor run(const loops::IR& kernel, const std::vector<Tensor>& inputs);

 private:
  const Backend* backend_;
  std::map<std::string, std::unique_ptr<Compiled>> kernels_;  // by their text
};

// `constants` by slot. The kernel runs with the same memory as one of the tree itself; what is there for a constant is
// not looked at. Throws an Error for a constant of another type than the slot's.
std::unique_ptr<Compiled> compile_bound(const Backend& backend, const loops::LoopTree& tree,
                                        const std::map<int64_t, Tensor>& constants);

}  // namespace tenon
