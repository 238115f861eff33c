// Compiles the objects of many kernels on all threads, or takes them from the cache.
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
  std::vector<size_t> of_tree;  // equal kernels share an object
};

// The cache key of an object: the kernel without names, the target, and the version of the compiler.
std::string object_key(const loops::LoopTree& tree, const Target& target);

// `cache` may be null. Throws the Errors of emit_object.
Objects compile_objects(std::span<const loops::LoopTree* const> trees, const Target& target, const ObjectCache* cache);

}  // namespace tenon::codegen
