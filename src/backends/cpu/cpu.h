// The `cpu` backend: machine code by LLVM, in this process.
//
// Objects come from the cache on disk (codegen/cache.h) where it has them. Code for another CPU compiles, and does not
// run: whoever tries is told what this machine lacks.
#pragma once

#include "backends/backend.h"
#include "schedule/machine.h"

namespace tenon {

struct CpuOptions {
  std::string cpu = "native";  // a name of codegen/target.h
  bool use_cache = true;
};

// The model of a CPU that schedules are made for; its caches are those of this machine.
Machine machine_of(std::string_view cpu);

// Compiles many kernels at once, on all threads. Kernels that differ in names only are compiled once.
std::vector<std::unique_ptr<Compiled>> compile_cpu(std::span<const loops::LoopTree* const> trees,
                                                   const CpuOptions& options = {});

// The backend for another CPU than this one: its kernels are for files, and run only where this machine has all that
// they need.
std::shared_ptr<const Backend> cpu_backend(std::string cpu);

// What a program of such a backend depends on besides its graph: the target, the machine, the schedules that were kept.
// Empty for any other backend.
std::string cpu_identity(const Backend& backend);

// The object file of a kernel that the cpu backend compiled, as long as the kernel lives; else empty.
std::string_view object_of(const Compiled& kernel);

struct KernelObject {
  const loops::LoopTree* tree;
  std::shared_ptr<const std::string> object;
};

// The kernels that compile_cpu would give, from what object_of said of them, in this process or another.
std::vector<std::unique_ptr<Compiled>> load_cpu(std::span<const KernelObject> kernels, const std::string& cpu);

}  // namespace tenon
