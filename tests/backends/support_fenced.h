// Kernels of the `cpu` backend, run where a mistake of the emitted code shows: no sanitizer looks at that.
//
//   - Every array lies right before, and then right after, memory that must not be touched; it is aligned to its
//     elements and to nothing else.
//   - Inputs cannot be written. What is around an array on its pages stays as it was.
//   - Scratch from the heap lies the same way (but aligned to 64 bytes, as tenon_services promises), and starts as
//   garbage.
//   - A parallel loop runs its iterations one by one, the last first.
//
// Code for AArch64 runs under qemu, where `make arm64` has built the program that runs it.
#pragma once

#include <span>
#include <string>

#include "backends/cpu/cpu.h"

namespace tenon::test {

// Why the kernels of a CPU cannot run here. Empty: they can.
std::string cannot_run(std::string_view cpu);

// A violation fails the test, and says where in which array.
std::vector<std::unique_ptr<Compiled>> compile_fenced(std::span<const loops::LoopTree* const> trees,
                                                      const CpuOptions& options = {});

// A backend of such kernels; its schedules are those of `cpu`.
std::shared_ptr<const Backend> fenced_cpu();

}  // namespace tenon::test
