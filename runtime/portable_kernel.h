// A PortableKernel runs a kernel without machine code: it interprets format/kernel.fbs.
//
//     const PortableKernel kernel = PortableKernel::load(bytes);
//     int64_t error[4] = {};
//     if (kernel.run(memory, sizes, error, services) != 0) fail(TENON_RUN_FAILED, kernel.describe(error));
//
// Results are exact: floating-point arithmetic is in double, rounded where the kernel stores or reads a narrower dtype,
// and folds run in the order of the loops. Every access is checked: no file that loads can make a kernel touch memory
// other than its arguments and its scratch.
//
// Innermost loops run in strips: one step for many iterations, then the next step, if that does not change results.
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

// Errors of a damaged file, in addition to those of all kernels (runtime/kernel.h).
enum {
  kPortableBadAccess = 4,   // error[2] is an index outside of an array of error[3] elements
  kPortableOutOfSteps = 5,  // the kernel needs more than error[2] steps
};

class PortableKernel {
 public:
  // `bytes` are aligned to 8 and outlive the kernel. Throws a StatusError (TENON_BAD_FILE) if the kernel breaks a rule
  // of the format.
  static PortableKernel load(std::span<const std::byte> bytes);
  PortableKernel(PortableKernel&&) noexcept;
  PortableKernel& operator=(PortableKernel&&) noexcept;
  ~PortableKernel();

  size_t inputs() const;
  size_t outputs() const;
  size_t sizes() const;  // the number of size symbols

  // Arguments are numbered: the inputs by slot, then the outputs by slot.
  tenon_dtype argument_dtype(size_t argument) const;
  // Both throw a StatusError (TENON_INVALID_ARGUMENT) if a size is negative or overflows.
  int64_t argument_elements(size_t argument, const int64_t* sizes) const;
  int64_t scratch_bytes(const int64_t* sizes) const;  // for one thread; a run needs a few KB more

  size_t nodes() const;
  std::string_view node_name(size_t node) const;  // `node` is error[1]

  static constexpr int64_t kNoLimit = INT64_MAX;

  // Runs as a tenon_kernel (runtime/kernel.h): returns 0, or the kind of an error. Each array of `memory` has
  // argument_elements() elements. With a step limit, the kernel runs on the calling thread alone. Thread-safe. Throws
  // the StatusErrors of argument_elements.
  int64_t run(void* const* memory, const int64_t* sizes, int64_t* error, const tenon_services* services,
              int64_t step_limit = kNoLimit) const;

  // the message of a failed run: "%y: index 7 is out of range for a size of 5"
  std::string describe(const int64_t* error) const;

 private:
  struct State;
  explicit PortableKernel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tenon::runtime
