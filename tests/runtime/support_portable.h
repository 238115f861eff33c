// Portable kernels taken apart, to be changed and put together again; and a host that keeps account.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "format/kernel_generated.h"
#include "runtime/kernel.h"

namespace tenon::test {

// The tables of a kernel. parts_of(bytes).bytes() is the same kernel.
struct KernelParts {
  uint32_t sizes, symbols, inputs, outputs;
  std::vector<format::Expr> variables;
  std::vector<format::portable::Buffer> buffers;
  std::vector<format::portable::Loop> loops;
  std::vector<format::portable::Step> steps;
  std::vector<format::portable::Source> sources;
  std::vector<format::portable::Lookup> lookups;
  std::vector<format::portable::Guard> guards;
  std::vector<int64_t> constants;
  std::vector<format::Instruction> code;
  std::vector<std::string> ops;
  std::vector<std::string> nodes;

  std::string bytes() const;
  format::Expr add(std::vector<format::Instruction> expr);  // to the code
};
KernelParts parts_of(const std::string& bytes);

// On the calling thread, with plain memory: each block ends where AddressSanitizer sees it.
class CountingHost : public tenon_host {
 public:
  CountingHost();
  CountingHost(const CountingHost&) = delete;
  ~CountingHost();  // fails the test where something was not released

  int64_t fail_at = -1;                // the number of the allocation that finds no memory
  int64_t largest = int64_t{1} << 24;  // of a block
  int64_t allocations = 0;

 private:
  static void* take(const tenon_host* host, int64_t bytes);
  static void give_back(const tenon_host* host, void* memory);

  std::map<void*, int64_t> blocks_;
};

}  // namespace tenon::test
