// The `cpu` backend: generates machine code with LLVM and runs it in this process.
//
// Objects are kept in the cache on disk (codegen/cache.h). Code for another CPU can be compiled; running it is an Error
// that names the missing features.
#pragma once

#include "backends/backend.h"
#include "machine/machine.h"

namespace tenon {

struct CpuOptions {
  std::string cpu = "native";  // a name of codegen/target.h
  bool use_cache = true;
};

// The machine model that schedules for a CPU use. Caches and threads are those of this machine.
Machine machine_of(std::string_view cpu);

// Compiles many kernels on all threads. Kernels that differ only in names are compiled once.
std::vector<std::unique_ptr<Compiled>> compile_cpu(std::span<const loops::LoopTree* const> trees,
                                                   const CpuOptions& options = {});

// The backend for another CPU. Its kernels are meant for files; they run only if this machine has all features that
// they need.
std::shared_ptr<const Backend> cpu_backend(std::string cpu);

// Everything besides the graph that a program of a cpu backend depends on: the target, the machine, the kept schedules.
// A part of cache keys. Empty for other backends.
std::string cpu_identity(const Backend& backend);

// The object file of a kernel of the cpu backend; valid as long as the kernel. Empty for other kernels.
std::string_view object_of(const Compiled& kernel);

struct KernelObject {
  const loops::LoopTree* tree;
  std::shared_ptr<const std::string> object;
};

// Makes kernels from object files that object_of returned, in this process or another.
std::vector<std::unique_ptr<Compiled>> load_cpu(std::span<const KernelObject> kernels, const std::string& cpu);

}  // namespace tenon
