// Objects of many kernels: from the cache, or compiled on all threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/cache.h"
#include "codegen/target.h"
#include "loops/loop_tree.h"

namespace tenon::codegen {

inline constexpr const char* kObjectFunction = "tenon_kernel";  // the function of each object

struct Objects {
  std::vector<std::string> objects;
  std::vector<size_t> of_tree;  // kernels that are the same share one
};

// What an object depends on: the kernel but for names, the target, and the compiler.
std::string object_key(const loops::LoopTree& tree, const Target& target);

// Without a cache (null) all are compiled. Throws as emit_object does.
Objects compile_objects(std::span<const loops::LoopTree* const> trees, const Target& target, const ObjectCache* cache);

}  // namespace tenon::codegen
