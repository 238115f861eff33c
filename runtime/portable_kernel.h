// A kernel that runs without machine code of its own: the interpreter of format/kernel.fbs.
//
//     const PortableKernel kernel = PortableKernel::load(bytes);
//     int64_t error[4] = {};
//     if (kernel.run(memory, sizes, error, services) != 0) fail(TENON_RUN_FAILED, kernel.describe(error));
//
// It is exact: floating arithmetic is double and rounded where the kernel stores or reads a narrower dtype, and folds
// go in the order of their loops. Nothing in a file that loads can make it touch memory that is not an argument's or
// its own: every access is checked.
//
// The innermost loops run in strips: each of their steps for many iterations at once, where that changes nothing.
// Parallel loops run on the threads of `services`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/kernel.h"
#include "tenon/tenon.h"

namespace tenon::runtime {

// Errors of a run beyond those of other kernels (runtime/kernel.h), which only a damaged file has.
enum {
  kPortableBadAccess = 4,   // error[2] is an element that an array of error[3] lacks
  kPortableOutOfSteps = 5,  // it takes more than error[2] steps
};

class PortableKernel {
 public:
  // `bytes` are aligned to 8 and outlive the kernel. Throws a StatusError (TENON_BAD_FILE) for a kernel that breaks a
  // rule of the format.
  static PortableKernel load(std::span<const std::byte> bytes);
  PortableKernel(PortableKernel&&) noexcept;
  PortableKernel& operator=(PortableKernel&&) noexcept;
  ~PortableKernel();

  size_t inputs() const;
  size_t outputs() const;
  size_t sizes() const;  // how many symbols a run gets the values of

  // An argument is an input by slot, or an output by slot after those.
  tenon_dtype argument_dtype(size_t argument) const;
  // These throw a StatusError (TENON_INVALID_ARGUMENT) for sizes with which they overflow, or are negative.
  int64_t argument_elements(size_t argument, const int64_t* sizes) const;
  int64_t scratch_bytes(const int64_t* sizes) const;  // of one thread; a run also needs a few KB for itself

  size_t nodes() const;
  std::string_view node_name(size_t node) const;  // error[1] is a node

  static constexpr int64_t kNoLimit = INT64_MAX;

  // A tenon_kernel (runtime/kernel.h): 0, or the kind of an error. `memory` has as many elements as argument_elements
  // says. With a limit of steps, it runs on the calling thread alone. May be called by many threads at once. Throws a
  // StatusError as argument_elements does.
  int64_t run(void* const* memory, const int64_t* sizes, int64_t* error, const tenon_services* services,
              int64_t most_steps = kNoLimit) const;

  std::string describe(const int64_t* error) const;  // of a run: "%y: index 7 is out of range for a size of 5"

 private:
  struct State;
  explicit PortableKernel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tenon::runtime
