#include "backends/native_kernel.h"

#include "runtime/services.h"

namespace tenon {

void report_error(const loops::IR& ir, const int64_t (&error)[4]) {
  const auto [kind, node, value, bound] = error;
  const std::string& name = ir.nodes()[static_cast<size_t>(node)].name;
  if (kind == kTenonOutOfRange) fail("%{}: index {} is out of range for a size of {}", name, value, bound);
  if (kind == kTenonDivisionByZero) fail("%{}: integer division of {} by zero", name, value);
  check(kind == kTenonOutOfMemory, "kernel {} failed with the unknown error {}", ir.name(), kind);
  fail("%{}: out of memory for its scratch array", name);
}

void NativeKernel::run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const {
  check_arguments(ir_, memory, sizes);
  int64_t error[4] = {};
  if (function_(memory.data(), sizes.data(), error, tenon_default_services()) != 0) report_error(ir_, error);
}

}  // namespace tenon
