// A Compiled around a function of the kernel ABI (runtime/kernel.h). Backends that generate machine code share it.
#pragma once

#include "backends/backend.h"
#include "runtime/kernel.h"

namespace tenon {

// Throws the Error of a tenon_kernel that failed with these words.
[[noreturn]] void report_error(const loops::IR& ir, const int64_t (&error)[4]);

class NativeKernel : public Compiled {
 public:
  // `code` keeps the code of the function in memory. `ir` is the kernel that it was compiled from.
  NativeKernel(tenon_kernel function, std::shared_ptr<const void> code, loops::IR ir)
      : function_(function), code_(std::move(code)), ir_(std::move(ir)) {}

  // Runs with the default services. An error names the node of the IR.
  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool sync) const override;
  tenon_kernel native() const override { return function_; }

 protected:
  const loops::IR& ir() const { return ir_; }

 private:
  tenon_kernel function_;
  std::shared_ptr<const void> code_;
  loops::IR ir_;
};

}  // namespace tenon
